package transport

import "github.com/quic-go/webtransport-go"

// SessionLimiter are quic.Hooks whose sender keeps the limits of a WebTransport session, besides the connection's
// (draft-ietf-webtrans-http3-15 §5). Without it, the limits hold for the session's methods only.
type SessionLimiter interface {
	// LimitSession sets how many unidirectional streams the peer allows this end to open in the session, and how many
	// bytes on all streams, without their headers. It is called before the session is used if there are limits, and
	// when the peer has raised them. blocked tells the peer that a limit is in the way; it may be called at any time
	// without locks.
	LimitSession(streams, data uint64, header int, blocked func(streams bool, limit uint64))
	// TakeSessionData takes up to n bytes of the limit of data for what the session's methods send, and returns how
	// many. The connection's credit for n bytes has been taken.
	TakeSessionData(n int64) int64
}

// limitedHooks implements [webtransport.Sender].
type limitedHooks struct {
	SessionLimiter
	session *wtSession
}

// Raise implements [webtransport.Sender].
func (h *limitedHooks) Raise(l webtransport.Limits) {
	h.LimitSession(l.UniStreams, uint64(l.Data), len(h.session.streamPrefix), h.blocked)
	h.session.qc.AllowUniStreams()
}

// Take implements [webtransport.Sender].
func (h *limitedHooks) Take(n int64) int64 { return h.TakeSessionData(n) }

func (h *limitedHooks) blocked(streams bool, limit uint64) {
	if streams {
		h.session.wt.BlockedUniStreams(limit)
	} else {
		h.session.wt.BlockedData(int64(limit))
	}
}
