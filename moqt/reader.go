package moqt

import (
	"encoding/binary"
	"errors"
	"io"
)

// Reader reads the control messages of one stream. It reads ahead, so nothing else may read from the stream. Its
// memory follows what has arrived, never what a length field announces.
type Reader struct {
	r       io.Reader
	version Version
	buf     []byte // read from r and not parsed yet, from start on
	start   int
}

// initialReadLen is how much a Reader asks for at first, in bytes: enough for most requests.
const initialReadLen = 512

// maxMessageHeaderLen is the longest type and length of a control message, in bytes.
const maxMessageHeaderLen = MaxVarintLen + 2

// NewReader returns a Reader of the messages in r. On a control stream r starts with SETUP, whose message type is also
// the stream type; a caller that has consumed it already puts it back with io.MultiReader.
func NewReader(r io.Reader, v Version) *Reader { return &Reader{r: r, version: v} }

// Buffered returns how many bytes were read from the stream and belong to messages that Read has not returned yet.
func (r *Reader) Buffered() int { return len(r.buf) - r.start }

// Read returns the next message. It returns io.EOF if the stream ends between two messages, a ProtocolError for what
// ParseMessage refuses and for a stream that ends within a message, and errors of the stream as they are. An error is
// final.
func (r *Reader) Read() (Message, error) {
	typ, n, length, err := r.header()
	if err != nil {
		return nil, err
	}
	if err := r.fill(n + length); err != nil {
		return nil, err
	}
	payload := r.buf[r.start+n : r.start+n+length]
	r.start += n + length
	return ParseMessage(r.version, typ, payload)
}

// header parses a message's type and length, without consuming them, and returns how long they are. Unknown types are
// refused here, before any payload is read.
func (r *Reader) header() (typ MessageType, n, length int, err error) {
	for want := 1; ; want++ {
		if err := r.fill(want); err != nil {
			return 0, 0, 0, err
		}
		b := r.buf[r.start:]
		x, n, err := ParseVarint(b)
		if err == nil && len(b) >= n+2 {
			typ = MessageType(x)
			if _, ok := r.version.wire().messages[typ]; !ok {
				return 0, 0, 0, violation("unknown message type %#x", x)
			}
			return typ, n + 2, int(binary.BigEndian.Uint16(b[n:])), nil
		}
		want = len(b)
	}
}

// fill reads until n bytes are buffered.
func (r *Reader) fill(n int) error {
	for len(r.buf)-r.start < n {
		r.makeRoom()
		m, err := r.r.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+m]
		if m > 0 || err == nil {
			continue
		}
		if errors.Is(err, io.EOF) && len(r.buf) > r.start {
			return violation("stream ends within a control message")
		}
		return err
	}
	return nil
}

// makeRoom makes space behind the buffered bytes. Doubling what is full bounds the memory by twice what the peer sent.
func (r *Reader) makeRoom() {
	if r.start == len(r.buf) {
		r.buf, r.start = r.buf[:0], 0
	}
	if len(r.buf) < cap(r.buf) {
		return
	}
	pending := r.buf[r.start:]
	buf := make([]byte, len(pending), max(initialReadLen, 2*len(pending)))
	copy(buf, pending)
	r.buf, r.start = buf, 0
}
