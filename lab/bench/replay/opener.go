package replay

import (
	"crypto/cipher"
	"crypto/tls"
	"encoding/binary"
	"errors"

	"github.com/quic-go/quic-go/quicvarint"
	"golang.org/x/crypto/chacha20"
	"golang.org/x/crypto/chacha20poly1305"

	"sluice/internal/packet"
)

// suite is the cipher suite of the packets.
const suite = tls.TLS_CHACHA20_POLY1305_SHA256

// opener opens the packets of the media sender, as a subscriber does (RFC 9001 §5). There are no key updates.
type opener struct {
	aead   cipher.AEAD
	iv     []byte
	header []byte
}

func newOpener(secret []byte) (*opener, error) {
	m, err := packet.Derive(suite, packet.Version1, secret)
	if err != nil {
		return nil, err
	}
	o := &opener{iv: m.IV, header: m.HeaderProtection}
	o.aead, err = chacha20poly1305.New(m.Key)
	return o, err
}

// open opens a packet in place. It returns the packet number and the payload.
func (o *opener) open(b []byte, connIDLength int) (number int64, payload []byte, err error) {
	header := 1 + connIDLength + packet.NumberLength
	field := b[header-packet.NumberLength : header]
	if packet.Unprotected {
		return int64(binary.BigEndian.Uint32(field)), b[header : len(b)-packet.TagLength], nil
	}
	c, err := chacha20.NewUnauthenticatedCipher(o.header, b[header+4:header+16])
	if err != nil {
		return 0, nil, err
	}
	c.SetCounter(binary.LittleEndian.Uint32(b[header:]))
	var mask [5]byte
	c.XORKeyStream(mask[:], mask[:])
	b[0] ^= mask[0] & 0x1f
	for i := range field {
		field[i] ^= mask[1+i]
	}
	n := binary.BigEndian.Uint32(field)
	nonce := append([]byte(nil), o.iv...)
	binary.BigEndian.PutUint64(nonce[4:], binary.BigEndian.Uint64(nonce[4:])^uint64(n))
	payload, err = o.aead.Open(b[header:header], nonce, b[header:], b[:header])
	return int64(n), payload, err
}

// content is the content of a packet that matters to a subscriber. A packet of the media sender has one frame.
type content struct {
	stream   bool // a part of a stream
	id       int64
	from, to int64
	data     []byte
}

var errFrame = errors.New("a frame is cut off")

// parseContent parses a payload.
func parseContent(b []byte) (c content, err error) {
	next := func() (v uint64) {
		var n int
		if err == nil {
			if v, n, err = quicvarint.Parse(b); err == nil {
				b = b[n:]
			}
		}
		return v
	}
	kind := next()
	if kind == packet.FrameImmediateAck {
		kind = next()
	}
	if err != nil || kind&^7 != packet.FrameStream {
		return c, err
	}
	c.stream, c.id = true, int64(next())
	if kind&packet.FrameStreamOffset != 0 {
		c.from = int64(next())
	}
	if err != nil {
		return c, errFrame
	}
	c.to, c.data = c.from+int64(len(b)), b
	return c, nil
}
