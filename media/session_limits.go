package media

import "sync/atomic"

// sessionLimits are what the peer of a WebTransport session allows besides the limits of its connection
// (draft-ietf-webtrans-http3-15 §5). They become limits of the connection, which all senders keep: the session is the
// only one on it. So each limit is larger than the session's by what does not count there: the streams and bytes of
// HTTP/3, and the headers of the session's streams. Few clients set limits; for others, nothing is counted.
//
// It is guarded by the sender's lock.
type sessionLimits struct {
	streams uint64 // of the connection that may be opened
	data    int64  // bytes of the session's streams
	header  int    // length of the header of a stream
	blocked func(streams bool, limit uint64)

	dataBlockedAt    int64  // limit that the peer was told is in the way; -1: none
	streamsBlockedAt uint64 // likewise; 0: none

	others  uint64 // streams of HTTP/3
	headers int64  // bytes, of streams that have ended
	quic    int64  // bytes that quic-go has sent on streams of the session
	taken   quicData
}

// quicData counts the connection credit that quic-go takes. It needs no lock.
type quicData struct {
	before atomic.Int64 // by all calls but the last one, what of it counts in the session may not be known yet
	last   atomic.Int64
}

func (q *quicData) take(n int64) { q.before.Add(q.last.Swap(n)) }

// dataLimit returns the limit of the connection that keeps the session's.
func (l *sessionLimits) dataLimit() int64 {
	return l.data + l.headers + l.taken.before.Load() - l.quic
}

// ended notes that a stream needs no more packets. The header of one that has not ended may not be sent yet.
func (l *sessionLimits) ended(st *Stream) {
	if l != nil && st.opened && st.final >= int64(l.header) {
		l.headers += int64(l.header)
	}
}

// tellData tells the peer that its limit of data is in the way, once for each limit.
func (l *sessionLimits) tellData() {
	if l.dataBlockedAt != l.data {
		l.dataBlockedAt = l.data
		l.blocked(false, uint64(l.data))
	}
}

// tellStreams tells the peer that its limit of streams is in the way, once for each limit.
func (l *sessionLimits) tellStreams() {
	if l.streamsBlockedAt != l.streams {
		l.streamsBlockedAt = l.streams
		l.blocked(true, l.streams-l.others)
	}
}
