package media

import (
	"math"
	"time"

	"sluice/claim"
	"sluice/track"
)

// content is the bytes of a stream: a prefix, and the log from start on. Its cursor is in the state that the
// forwarder shares. It is guarded by the sender's lock.
//
// When the publisher's stream breaks off, and another one goes on with the log, the forwarder must not send any more:
// it has the bytes of the first one, and those that follow in the log may be others. It may also have sent more of them
// than user space has received. Then the stream ends before those. If not, the forwarder goes on with the other one.
type content struct {
	state      *claim.StreamState
	shared     bool          // state is the forwarder's
	origin     *track.Origin // the publisher's stream whose offsets state has, or had when it was shared last
	prefix     []byte
	prefixSent int
	log        *track.Log
	reader     *track.Reader // nil: the log is not needed any more
	start      int64         // log offset
	until      int64         // log offset: what the log has from here on is not this stream's
	severed    int64         // log offset: where the origin broke off, if until is a limit
	object     track.Object  // found last, see find
}

// id returns the QUIC stream id.
func (c *content) id() int64 { return int64(c.state.ID.Load()) }

// base returns the number that turns an offset in state into a log offset when it is added.
func (c *content) base() int64 {
	if c.shared {
		return c.origin.Delta
	}
	return 0
}

// cursor returns the log offset of the first byte that is not claimed, and whether claiming has ended.
func (c *content) cursor() (offset int64, closed bool) {
	offset, closed = c.state.Cursor()
	return offset + c.base(), closed
}

// shift returns the number that turns a log offset into a stream offset when it is added.
func (c *content) shift() int64 { return c.state.Shift() - c.base() }

// offset returns the stream offset of the first byte that is not claimed.
func (c *content) offset() int64 {
	if c.prefixSent < len(c.prefix) {
		return int64(c.prefixSent)
	}
	next, _ := c.state.Cursor()
	return next + c.state.Shift()
}

// logOffset returns the log offset of a stream offset, or start for an offset in the prefix.
func (c *content) logOffset(offset int64) int64 {
	return max(offset-int64(len(c.prefix)), 0) + c.start
}

// read copies the stream's bytes from offset on into p.
func (c *content) read(p []byte, offset int64) {
	if head := int64(len(c.prefix)) - offset; head > 0 {
		n := copy(p, c.prefix[offset:])
		p, offset = p[n:], offset+int64(n)
	}
	c.reader.ReadAt(p, c.logOffset(offset))
}

// bound returns up to which log offset the stream can be sent now. An object that was cut waits for its rest.
func (c *content) bound(state track.State) int64 {
	end := c.log.End()
	if state == track.Cut || state == track.Reset {
		end = c.log.Boundary(end)
	}
	if at, severed := c.origin.Severed(); severed && c.shared { // after End: see track.Origin.Severed
		end = min(end, at)
	}
	return min(end, c.until)
}

// unlimited is the value of until while the stream has all that the log has.
const unlimited = math.MaxInt64

// fresh returns up to which log offset there is data, whether the stream ends there, and whether some of that is not
// claimed.
func (c *content) fresh() (end int64, last, more bool) {
	state, _ := c.log.State() // before End: see track.Log.End
	end = c.bound(state)
	last = state == track.Finished && c.until == unlimited && end == c.log.End()
	next, closed := c.cursor()
	return end, last, !closed && (next < end || last && next == end)
}

// claim takes n bytes from stream offset from on, and with fin the right to send FIN. It reports whether they are the
// caller's. The forwarder does not send before the prefix is claimed.
func (c *content) claim(from, n int64, fin bool) bool {
	prefix := min(int64(len(c.prefix)-c.prefixSent), n)
	if prefix > 0 {
		c.prefixSent += int(prefix)
		from, n = from+prefix, n-prefix
	}
	if c.prefixSent < len(c.prefix) {
		return true
	}
	at := from - c.state.Shift()
	if (n > 0 || fin) && !c.state.Claim(at, at+n, fin) {
		return false
	}
	if c.state.Phase.Load() == claim.StreamOpening {
		c.state.Phase.Store(claim.StreamOpen)
	}
	return true
}

// close ends claiming, releases the log and returns the final size of the stream.
func (c *content) close() (size int64) {
	next := c.state.Close()
	c.state.Phase.Store(claim.StreamClosed)
	c.reader.Close()
	c.reader = nil
	if c.prefixSent < len(c.prefix) {
		return int64(c.prefixSent)
	}
	return next + c.state.Shift()
}

// detach moves the cursor to a state that the forwarder does not share, and returns the state that it shared. The log
// was severed at an offset.
func (c *content) detach(at int64) (shared *claim.StreamState) {
	state := new(claim.StreamState)
	shared = c.state
	next, fin := shared.MoveTo(state, -c.base())
	if next += c.base(); next > max(at, c.start) || fin {
		c.until, c.severed = max(c.log.Boundary(min(next, at)), c.start), at
	}
	c.state, c.shared = state, false
	return shared
}

// next returns the publisher's stream that the log goes on with, if the forwarder may go on with it, too, and was not
// asked yet.
func (c *content) next() *track.Origin {
	o := c.log.Origin()
	if c.shared || o == c.origin || c.until != unlimited || c.prefixSent < len(c.prefix) {
		return nil
	}
	if next, closed := c.cursor(); closed || next < o.From {
		return nil
	}
	return o
}

// attach moves the cursor to a state that the forwarder shares for an origin. It reports false if the origin has broken
// off since next has returned it.
func (c *content) attach(o *track.Origin, shared *claim.StreamState) (ok bool) {
	_, closed := c.state.Cursor()
	if _, severed := o.Severed(); severed || closed || c.reader == nil {
		return false
	}
	c.state.MoveTo(shared, o.Delta)
	c.state, c.shared = shared, true
	return true
}

// overrun reports whether the forwarder has sent more than the log will have: the publisher has broken QUIC's rules.
func (c *content) overrun(state track.State) bool {
	next, _ := c.cursor()
	return state == track.Finished && c.until == unlimited && next > c.log.End()
}

// find sets object to the object at a log offset, and reports whether it is known.
func (c *content) find(offset int64) bool {
	if offset >= c.object.Start && offset < c.object.End {
		return true
	}
	o, ok := c.log.Covering(offset)
	if ok {
		c.object = o
	}
	return ok
}

// sent returns the offset after the last byte sent. FIN counts as a byte.
func (c *content) sent() int64 {
	end := c.offset()
	if _, closed := c.state.Cursor(); closed {
		end++
	}
	return end
}

// betweenObjects reports whether the next new byte is the first one of an object that has come.
func (c *content) betweenObjects() bool {
	next, closed := c.cursor()
	return !closed && c.find(next) && c.object.Start == next
}

// age returns how long before a time the object at a log offset was received, or 0 while that is not known: its fields
// may be incomplete.
func (c *content) age(now time.Time, offset int64) time.Duration {
	if !c.find(offset) {
		return 0
	}
	return now.Sub(c.object.Received)
}

// repairable returns how many of the bytes that were lost can be sent again now. The forwarder may be ahead of the log:
// bytes that it has sent, and that were lost, may not have come yet.
func (c *content) repairable(lost spans) int64 {
	if len(lost) == 0 {
		return 0
	}
	state, _ := c.log.State()
	return min(lost[0].to, max(c.bound(state), c.start)+c.shift()) - lost[0].from
}
