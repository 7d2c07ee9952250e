package moqt

import (
	"encoding/binary"
	"errors"
	"io"
)

// Reader reads the control messages of one stream. It reads ahead, so nothing else may read from the stream. Its buffer
// grows with the bytes that have arrived, not with the length that a field announces.
type Reader struct {
	// OldParameters is asked about a message that can be read only with parameters as before draft 17:
	// SUBSCRIBER_PRIORITY is a varint, and SUBSCRIBE_OK may have a GROUP_ORDER, which is left out. If it is nil or
	// returns false, the message is a violation.
	OldParameters func() bool

	ref     Reference // of the latest message
	r       io.Reader
	version Version
	buf     []byte // read from r and not parsed yet, from start on
	start   int
}

const (
	initialReadLen = 512  // size of the first buffer, in bytes: enough for most requests
	maxIdleBuffer  = 4096 // bytes that a Reader keeps between messages
)

// NewReader returns a Reader of the messages in r. On a control stream r starts with SETUP, whose message type is also
// the stream type. A caller that has read the type already prepends it with io.MultiReader.
func NewReader(r io.Reader, v Version) *Reader { return &Reader{r: r, version: v} }

// Buffered returns the number of bytes that were read from the stream and belong to no message that Read has returned.
func (r *Reader) Buffered() int { return len(r.buf) - r.start }

// Reference returns the request of the message that Read has returned, or that has made a track malformed. Its Answers
// is not set.
func (r *Reader) Reference() Reference { return r.ref }

// Read returns the next message. It returns io.EOF if the stream ends between two messages, a ProtocolError if it ends
// within a message or the message breaks a rule, and the stream's errors. All errors are final, but for a
// MalformedTrackError, if the Track Properties make the track malformed: other messages can be read after it.
func (r *Reader) Read() (Message, error) {
	typ, n, err := r.header()
	if err != nil {
		return nil, err
	}
	length := int(binary.BigEndian.Uint16(r.buf[r.start+n-2:]))
	if err := r.fill(n + length); err != nil {
		return nil, err
	}
	payload := r.buf[r.start+n:][:length]
	r.start += n + length
	m, ref, err := parseMessage(r.version, typ, payload, false)
	r.ref = ref
	if err == nil || r.OldParameters == nil {
		return m, err
	}
	if old, _, e := parseMessage(r.version, typ, payload, true); e == nil && r.OldParameters() {
		return old, nil
	}
	return nil, err
}

// header reads until the type and the length of a message are buffered, and returns the type and the encoded size of
// both. It refuses unknown types, before any payload is read.
func (r *Reader) header() (typ MessageType, n int, err error) {
	if err := r.fill(1); err != nil {
		return 0, 0, err
	}
	n = r.version.wire().varint().lenOf(r.buf[r.start])
	if err := r.fill(n + 2); err != nil {
		return 0, 0, err
	}
	x, _, _ := r.version.wire().varint().parse(r.buf[r.start:])
	if _, ok := r.version.wire().format(MessageType(x)); !ok {
		return 0, 0, violation("unknown message type %#x", x)
	}
	return MessageType(x), n + 2, nil
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

// makeRoom makes space behind the buffered bytes. It doubles a full buffer, so the buffer is at most twice as long as
// what the peer has sent.
func (r *Reader) makeRoom() {
	if r.start == len(r.buf) {
		r.buf, r.start = r.buf[:0], 0
		if cap(r.buf) > maxIdleBuffer {
			r.buf = nil
		}
	}
	if len(r.buf) < cap(r.buf) {
		return
	}
	pending := r.buf[r.start:]
	buf := make([]byte, len(pending), max(initialReadLen, 2*len(pending)))
	copy(buf, pending)
	r.buf, r.start = buf, 0
}
