package media

import (
	"crypto/tls"
	"testing"

	"github.com/stretchr/testify/require"
)

// Claims is the claim protocol on memory that a real second sender shares.
type Claims struct{ scenario }

// NewClaims returns a Claims on a connection and a stream.
func NewClaims(sub *SubscriberState, stream *StreamState, records []Record) *Claims {
	return &Claims{scenario{sub: sub, stream: stream, ledger: records}}
}

// Reset begins a stream with that id anew, on a connection that has used nothing.
func (c *Claims) Reset(id int64, credit uint64) {
	c.reset()
	c.sub.DataLimit.Store(credit)
	c.sub.MTU.Store(1400)
	c.sub.Threshold.Store(uint32(LowestPriority))
	c.stream.ID.Store(uint64(id))
}

// SendAll claims all bytes up to end, in pieces of n, and then FIN. It ends when there is nothing to send, or no credit.
func (c *Claims) SendAll(end, n int64) {
	for range 4 * (end/n + 1) { // it may lose a race for each packet of the other side
		if _, closed := c.stream.next(); closed || c.sub.dataAvailable() == 0 {
			return
		}
		c.send(end, n, true)
	}
}

// Close ends claiming, and returns where.
func (c *Claims) Close() int64 { return c.stream.close() }

// Check expects the records to cover all that was claimed, once, and the counters to agree. It returns the cursor, and how many claims had FIN.
func (c *Claims) Check(t *testing.T) (next int64, closed bool, fins int) {
	next, closed = c.stream.next()
	return next, closed, c.claimed(t, next)
}

// TakeStream takes the id of a stream as the sender does.
func (c *Claims) TakeStream() (id int64, ok bool) { return c.sub.takeStream() }

// BeforeEach runs f, and calls before with their count before each access to shared memory. before may access it, too.
func BeforeEach(f func(), before func(accesses int)) {
	n := 0
	interleave = func(any) {
		outer := interleave
		interleave = nil
		before(n)
		n++
		interleave = outer
	}
	defer func() { interleave = nil }()
	f()
}

// Packets seals the packets of a peer.
type Packets struct {
	seal sealer
	Keys PacketKeys
	next uint64
}

// NewPackets returns a peer's packets, whose traffic secret is of no importance.
func NewPackets(t *testing.T) *Packets {
	secret := make([]byte, 32)
	p := new(Packets)
	require.NoError(t, p.Keys.derive(secret))
	key, header, err := newPacketKey(0, tls.TLS_CHACHA20_POLY1305_SHA256, version1, secret)
	require.NoError(t, err)
	p.seal.install(0, key, header)
	return p
}

// Stream is a packet with a STREAM frame.
func (p *Packets) Stream(connectionID []byte, id, offset int64, data []byte, fin bool) []byte {
	b := append([]byte{0x40 | (numberLength - 1)}, connectionID...)
	b = append(b, byte(p.next>>24), byte(p.next>>16), byte(p.next>>8), byte(p.next))
	n := len(b)
	b = append(appendStreamHeader(b, id, offset, fin), data...)
	b = p.seal.seal(append(b, make([]byte, tagLength)...)[:len(b)], n, p.next, 0)
	p.next++
	return b
}
