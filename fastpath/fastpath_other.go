//go:build !linux

package fastpath

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"

	"sluice/claim"
	"sluice/internal/delay"
	"sluice/internal/rtpframe"
	"sluice/moqt"
)

// FastPath exists on Linux only.
type FastPath struct{ claim.Forwarder }

// New fails.
func New(Settings, *slog.Logger) (*FastPath, error) { return nil, errors.New("needs Linux") }

// Rule exists on Linux only.
type Rule struct{ claim.Rule }

// LoadRule fails.
func LoadRule(string, *slog.Logger) (*Rule, error) { return nil, errors.New("needs Linux") }

// String returns nothing.
func (*Rule) String() string { return "" }

// Close does nothing.
func (*Rule) Close() error { return nil }

// Attach does nothing.
func (*FastPath) Attach(...int) error { return nil }

// Devices fails.
func Devices(netip.Addr) ([]int, error) { return nil, errors.New("needs Linux") }

// Forwards returns false.
func (*FastPath) Forwards() bool { return false }

// MaxSubscribers returns 0.
func (*FastPath) MaxSubscribers() int { return 0 }

// ThreadsCopies returns 0.
func (*FastPath) ThreadsCopies() uint64 { return 0 }

// Counts returns nothing.
func (*FastPath) Counts() (map[string]uint64, error) { return nil, nil }

// Copies returns nothing.
func (*FastPath) Copies(claim.ForwarderConn) map[string]uint64 { return nil }

// AwaitRuns does nothing.
func (*FastPath) AwaitRuns() bool { return false }

// Measure does nothing.
func (*FastPath) Measure(bool) {}

// Delays returns nothing.
func (*FastPath) Delays() (h delay.Histogram, err error) { return h, nil }

// Close does nothing.
func (*FastPath) Close() error { return nil }

// NewTrack returns nil.
func (*FastPath) NewTrack() *ForwardedTrack { return nil }

// ForwardedTrack does nothing.
type ForwardedTrack struct{}

// Forward does nothing.
func (*ForwardedTrack) Forward(claim.ForwarderConn, uint64, uint8, []Subscriber) {}

// Receive does nothing.
func (*ForwardedTrack) Receive(claim.ForwarderConn, int64, moqt.SubgroupHeader, uint8, int64) (end func()) {
	return func() {}
}

// AwaitRead does nothing.
func (*ForwardedTrack) AwaitRead(context.Context, claim.ForwarderConn, []claim.ForwarderConn) {}

// Identify does nothing.
func (*ForwardedTrack) Identify(claim.ForwarderConn, int64, moqt.SubgroupHeader, uint64, uint8, int64) {
}

// GoOn does nothing.
func (*ForwardedTrack) GoOn(claim.ForwarderConn, int64, moqt.SubgroupHeader, uint64, uint8, int64) {}

// Passed returns the first of all locations.
func (*ForwardedTrack) Passed() (first moqt.Location) { return first }

// ClaimObject returns nil.
func (*ForwardedTrack) ClaimObject(moqt.Location) []Subscriber { return nil }

// Close does nothing.
func (*ForwardedTrack) Close() {}

// RTPMedia does nothing.
type RTPMedia struct{}

// NewRTPMedia fails.
func (*FastPath) NewRTPMedia(RTPSource) (*RTPMedia, error) { return nil, errors.New("needs Linux") }

// Take returns nothing.
func (*RTPMedia) Take(RTPPacket) (served RTPServed) { return served }

// Await does nothing.
func (*RTPMedia) Await() {}

// Pause does nothing.
func (*RTPMedia) Pause(bool) {}

// Join returns nil.
func (*RTPMedia) Join(RTPPath, *rtpframe.Flow) *RTPPlayer { return nil }

// Frames returns false.
func (*RTPMedia) Frames(func(*rtpframe.Frames)) bool { return false }

// Close does nothing.
func (*RTPMedia) Close() {}

// RTPPlayer does nothing.
type RTPPlayer struct{}

// Flow does nothing.
func (*RTPPlayer) Flow(func(*rtpframe.Flow)) {}

// Has returns false.
func (*RTPServed) Has(*RTPPlayer) bool { return false }

// Forward does nothing.
func (*RTPPlayer) Forward(bool) {}

// Sent returns nothing.
func (*RTPPlayer) Sent() (packets, octets uint64) { return 0, 0 }

// Leave does nothing.
func (*RTPPlayer) Leave() {}

// Route fails.
func Route(netip.Addr, netip.AddrPort) (netip.Addr, int, error) {
	return netip.Addr{}, 0, errors.New("needs Linux")
}
