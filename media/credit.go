package media

import (
	"sync/atomic"

	"github.com/quic-go/quic-go"

	"sluice/claim"
	"sluice/internal/packet"
)

// parking is why new data of a stream is not scheduled although there is some.
type parking uint8

const (
	notParked    parking = iota
	parkedStream         // until MAX_STREAM_DATA
	parkedConn           // until MAX_DATA
	parkedID             // until MAX_STREAMS
)

// credit is flow control (RFC 9000 §4): the streams whose new data waits for credit, and the frames that tell the
// peer so. A stream with lost data stays scheduled: repeated bytes need no credit. All but wanted is guarded by the
// sender's lock.
type credit struct {
	state    *claim.ConnState
	counters *Counters
	wanted   atomic.Bool // new data waits for connection credit; needs no lock

	parked           int                     // streams
	waiting          [parkedID + 1][]*Stream // those that wait for more than their own credit
	frames           []blockedFrame          // to be sent
	dataBlockedAt    int64                   // limit that DATA_BLOCKED was sent for; -1: none
	streamsBlockedAt int64                   // limit that STREAMS_BLOCKED was sent for; -1: none

	reserve int64          // the least that ConnState.Reserve is
	uni     uint64         // unidirectional streams that the connection allows
	session *sessionLimits // nil: the connection's limits are all
}

// maxReserve is more than control messages need in a round trip.
const maxReserve = 4 << 10

// begin sets the connection's limits.
func (c *credit) begin(p quic.PeerParameters) {
	c.reserve = min(p.MaxData/8, maxReserve)
	c.state.Reserve.Store(uint64(c.reserve))
	c.state.SetDataLimit(p.MaxData)
	c.setStreams(uint64(p.MaxStreamsUni))
}

// setData sets the connection's limit of data, and reports whether streams had waited for that.
func (c *credit) setData(n int64) bool {
	if c.session == nil {
		return c.state.SetDataLimit(n) && c.release(parkedConn)
	}
	if more := n - c.connLimit(); more > 0 {
		c.state.Reserve.Add(uint64(more))
	}
	return c.raiseData()
}

// setStreams sets how many unidirectional streams the connection allows, and reports whether streams had waited for
// that.
func (c *credit) setStreams(n uint64) bool {
	c.uni = max(c.uni, n)
	limit := c.uni
	if c.session != nil {
		limit = min(limit, c.session.streams)
	}
	if limit <= c.state.MaxUni.Load() {
		return false
	}
	c.state.MaxUni.Store(limit)
	return c.release(parkedID)
}

// restrict takes all credit from the two senders, before the limits of a session are known. They have sent nothing yet.
// quic-go's own streams, such as HTTP/3's, do not count in the session, and keep the connection's limit: what the
// session keeps from the senders is part of Reserve.
func (c *credit) restrict() {
	limit, sent := c.connLimit(), c.state.DataSent.Load()
	c.state.DataLimit.Store(sent)
	c.state.Reserve.Store(uint64(limit) - sent)
	c.state.MaxUni.Store(c.session.others)
}

// raiseData gives the senders what both the connection and the session allow, and reports whether streams had waited
// for that.
func (c *credit) raiseData() bool {
	limit := min(c.session.dataLimit(), c.connLimit()-c.reserve)
	more := limit - int64(c.state.DataLimit.Load())
	if more <= 0 {
		return false
	}
	c.state.Reserve.Add(uint64(-more)) // first, so that the sum never exceeds the connection's limit
	c.state.DataLimit.Add(uint64(more))
	return c.release(parkedConn)
}

// blockedFrame is a DATA_BLOCKED, STREAM_DATA_BLOCKED or STREAMS_BLOCKED frame (RFC 9000 §19.12 to §19.14).
type blockedFrame struct {
	frame  byte
	stream *Stream // of STREAM_DATA_BLOCKED
	limit  int64
}

// obsolete reports whether the stream of a STREAM_DATA_BLOCKED frame is not blocked any more.
func (f blockedFrame) obsolete() bool {
	return f.stream != nil && (f.stream.park != parkedStream || f.stream.reader == nil)
}

func (c *credit) connLimit() int64   { return int64(c.state.DataLimit.Load() + c.state.Reserve.Load()) }
func (c *credit) streamLimit() int64 { return int64(c.state.MaxUni.Load()) }

// block parks new data of a stream, and tells the peer so, once for each limit.
func (c *credit) block(st *Stream, p parking) {
	switch p {
	case parkedStream:
		c.counters.count(BlockedStream)
		if limit := int64(st.state.Limit.Load()); st.blockedAt != limit {
			st.blockedAt = limit
			c.tell(packet.FrameStreamDataBlocked, st, limit)
		}
	case parkedConn:
		c.counters.count(BlockedConn)
		if c.session != nil {
			c.raiseData()
		}
		c.wanted.Store(true)
		if c.state.DataAvailable() > 0 { // returned before ReturnData could see that it is wanted
			return
		}
		if limit := c.connLimit(); c.session != nil && c.session.dataLimit() < limit-c.reserve {
			c.session.tellData()
		} else if c.dataBlockedAt != limit {
			c.dataBlockedAt = limit
			c.tell(packet.FrameDataBlocked, nil, limit)
		}
	case parkedID:
		c.counters.count(BlockedStreams)
		if limit := c.streamLimit(); c.session != nil && c.session.streams < c.uni {
			c.session.tellStreams()
		} else if c.streamsBlockedAt != limit {
			c.streamsBlockedAt = limit
			c.tell(packet.FrameStreamsBlockedUni, nil, limit)
		}
	}
	c.add(st, p)
}

func (c *credit) tell(frame byte, st *Stream, limit int64) {
	c.frames = append(c.frames, blockedFrame{frame, st, limit})
}

// add parks a stream until the credit comes.
func (c *credit) add(st *Stream, p parking) {
	st.park = p
	c.parked++
	if p != parkedStream {
		st.parkedAt = len(c.waiting[p])
		c.waiting[p] = append(c.waiting[p], st)
	}
	st.update()
}

// release schedules the streams that waited for p, and reports whether there were any.
func (c *credit) release(p parking) bool {
	list := c.waiting[p]
	c.waiting[p] = nil
	if p == parkedConn {
		c.wanted.Store(false)
	}
	for _, st := range list {
		c.unpark(st)
	}
	return len(list) > 0
}

// releaseReturned schedules the streams that waited for connection credit if quic-go has returned some.
func (c *credit) releaseReturned() {
	if c.wanted.Load() && c.state.DataAvailable() > 0 {
		c.release(parkedConn)
	}
}

// releaseStream schedules a stream, or forgets one that has ended.
func (c *credit) releaseStream(st *Stream) {
	if st.park == notParked {
		return
	}
	if list := c.waiting[st.park]; st.park != parkedStream {
		last := len(list) - 1
		list[st.parkedAt] = list[last]
		list[st.parkedAt].parkedAt = st.parkedAt
		list[last] = nil
		c.waiting[st.park] = list[:last]
	}
	c.unpark(st)
}

// unpark schedules a stream that is not in waiting any more.
func (c *credit) unpark(st *Stream) {
	st.park = notParked
	c.parked--
	st.update()
}

// lost sends a frame again if its limit is still the same and in the way.
func (c *credit) lost(frame byte, st *Stream) {
	switch frame {
	case packet.FrameDataBlocked:
		if len(c.waiting[parkedConn]) > 0 && c.dataBlockedAt == c.connLimit() {
			c.tell(frame, nil, c.dataBlockedAt)
		}
	case packet.FrameStreamsBlockedUni:
		if len(c.waiting[parkedID]) > 0 && c.streamsBlockedAt == c.streamLimit() {
			c.tell(frame, nil, c.streamsBlockedAt)
		}
	case packet.FrameStreamDataBlocked:
		if st != nil && st.park == parkedStream && uint64(st.blockedAt) == st.state.Limit.Load() {
			c.tell(frame, st, st.blockedAt)
		}
	}
}

// close forgets what waits.
func (c *credit) close() { c.frames, c.waiting = nil, [len(c.waiting)][]*Stream{} }
