package claimtest

import (
	"testing"

	"sluice/claim"
	"sluice/claim/internal/hook"
)

// Claims runs the claim protocol on memory that a real forwarder shares.
type Claims struct{ sc Scenario }

// NewClaims returns a Claims on a connection and a stream.
func NewClaims(conn *claim.ConnState, stream *claim.StreamState, records []claim.Record) *Claims {
	return &Claims{Scenario{Conn: conn, Stream: stream, Ledger: records}}
}

// Reset begins a stream with that id anew, on a connection that has used nothing. The congestion window is 1 MiB, the
// largest packet has 1,400 bytes, and all priorities pass.
func (c *Claims) Reset(id int64, credit uint64) {
	c.sc.reset()
	c.sc.Conn.DataLimit.Store(credit)
	c.sc.Conn.MTU.Store(1400)
	c.sc.Conn.Threshold.Store(0xffff)
	c.sc.Stream.ID.Store(uint64(id))
}

// SendAll claims all bytes up to end, in pieces of n, and then FIN. It ends when nothing is left to send, or no credit.
func (c *Claims) SendAll(end, n int64) {
	for range 4 * (end/n + 1) { // the forwarder may take the bytes of each piece first
		if _, closed := c.sc.Stream.Cursor(); closed || c.sc.Conn.DataAvailable() == 0 {
			return
		}
		c.sc.Send(end, n, true)
	}
}

// Close ends claiming, and returns where.
func (c *Claims) Close() int64 { return c.sc.Stream.Close() }

// Move moves the cursor to memory that the forwarder does not share, and returns it.
func (c *Claims) Move() int64 { n, _ := c.sc.Stream.MoveTo(new(claim.StreamState), 0); return n }

// Check expects the records to cover all that was claimed, once, and the counters to agree. It returns the cursor,
// whether claiming has ended, and how many claims had FIN.
func (c *Claims) Check(t *testing.T) (next int64, closed bool, fins int) {
	t.Helper()
	next, closed = c.sc.Stream.Cursor()
	return next, closed, c.sc.Claimed(t, next)
}

// TakeStream takes the id of a stream as the media sender does.
func (c *Claims) TakeStream() (id int64, ok bool) { return c.sc.Conn.TakeStream() }

// BeforeEach runs f, and calls before with their count before each access to shared words. before may access them, too.
func BeforeEach(f func(), before func(accesses int)) {
	n := 0
	hook.Interleave = func(any, bool) {
		outer := hook.Interleave
		hook.Interleave = nil
		before(n)
		n++
		hook.Interleave = outer
	}
	defer func() { hook.Interleave = nil }()
	f()
}
