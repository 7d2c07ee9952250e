package relay

import (
	"sluice/claim"
	"sluice/fastpath"
	"sluice/media"
	"sluice/moqt"
	"sluice/transport"
)

// FastPathPolicy chooses how many subscribers the fast path serves. It is asked whenever the subscribers of a track
// change, and must not block.
type FastPathPolicy interface {
	// Subscribers returns how many of a track's subscribers the kernel serves: 0 for none, at most
	// fastpath.Settings.MaxCopies. Subscribers that it serves already are chosen first. The kernel's work for a packet
	// of the track is about 4 µs for each.
	Subscribers(track moqt.FullTrackName, subscribers int) int
}

// FastPathBudget is a [FastPathPolicy] that gives each track the same number of subscribers. 0 is the default, as many
// as the fast path can serve; a negative number turns the fast path off.
type FastPathBudget int

// Subscribers implements [FastPathPolicy].
func (b FastPathBudget) Subscribers(moqt.FullTrackName, int) int {
	if b == 0 {
		return fastpath.MaxSubscriptions
	}
	return max(0, int(b))
}

// forwarderOf tells the fast path about a session, if it serves the connection.
func forwarderOf(conn transport.Conn, v moqt.Version) claim.ForwarderConn {
	s, ok := conn.Hooks().(media.Hooks)
	if !ok {
		return nil
	}
	s.SetSession(claim.Session{
		StreamPrefix: conn.StreamPrefix(), DatagramPrefix: conn.DatagramPrefix(), ErrorCode: conn.StreamErrorCode,
		Layout: v.DataLayout(),
	})
	return s.Forwarder()
}
