package media

import (
	"sluice/claim"
	"sluice/clock"
	"sluice/internal/packet"
	"sluice/internal/udp"
)

// blockedFrame is a DATA_BLOCKED, STREAM_DATA_BLOCKED or STREAMS_BLOCKED frame to be sent (RFC 9000 §19.12 to §19.14).
type blockedFrame struct {
	frame  byte
	stream *Stream // of STREAM_DATA_BLOCKED
	limit  int64
}

// block parks new data of a stream and tells the peer so, once for each limit.
func (s *Sender) block(st *Stream, p parking) {
	switch p {
	case parkedStream:
		s.count(BlockedStream)
		if limit := int64(st.state.Limit.Load()); st.blockedAt != limit {
			st.blockedAt = limit
			s.blocked = append(s.blocked, blockedFrame{packet.FrameStreamDataBlocked, st, limit})
		}
	case parkedConn:
		s.count(BlockedConn)
		s.dataWanted.Store(true)
		if s.state.DataAvailable() > 0 { // returned before ReturnData could see that it is wanted
			return
		}
		if limit := int64(s.state.DataLimit.Load() + s.state.Reserve.Load()); s.dataBlockedAt != limit {
			s.dataBlockedAt = limit
			s.blocked = append(s.blocked, blockedFrame{packet.FrameDataBlocked, nil, limit})
		}
	case parkedID:
		s.count(BlockedStreams)
		if limit := int64(s.state.MaxUni.Load()); s.streamsBlockedAt != limit {
			s.streamsBlockedAt = limit
			s.blocked = append(s.blocked, blockedFrame{packet.FrameStreamsBlockedUni, nil, limit})
		}
	}
	s.parkAs(st, p)
}

func (s *Sender) sendBlocked(now clock.Time, b *udp.Batch) Reason {
	f := s.blocked[0]
	r := none
	switch {
	case f.frame != packet.FrameStreamDataBlocked:
		r = s.sendControl(now, b, nil, claim.KindBlocked, int64(f.frame), f.frame, uint64(f.limit))
	case f.stream.park == parkedStream && f.stream.reader != nil:
		r = s.sendControl(now, b, f.stream, claim.KindBlocked, int64(f.frame), f.frame, uint64(f.stream.id()), uint64(f.limit))
	}
	if r == none {
		s.blocked = s.blocked[1:]
	}
	return r
}

// loseBlocked sends the frame again if the limit is still the same and in the way.
func (s *Sender) loseBlocked(frame byte, st *Stream) {
	switch {
	case frame == packet.FrameDataBlocked && len(s.parked[parkedConn]) > 0 && uint64(s.dataBlockedAt) == s.state.DataLimit.Load()+s.state.Reserve.Load():
		s.blocked = append(s.blocked, blockedFrame{frame, nil, s.dataBlockedAt})
	case frame == packet.FrameStreamsBlockedUni && len(s.parked[parkedID]) > 0 && uint64(s.streamsBlockedAt) == s.state.MaxUni.Load():
		s.blocked = append(s.blocked, blockedFrame{frame, nil, s.streamsBlockedAt})
	case frame == packet.FrameStreamDataBlocked && st != nil && st.park == parkedStream && uint64(st.blockedAt) == st.state.Limit.Load():
		s.blocked = append(s.blocked, blockedFrame{frame, st, st.blockedAt})
	}
}
