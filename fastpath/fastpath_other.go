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

var errLinux = errors.New("needs Linux")

// New fails.
func New(Settings, *slog.Logger) (*FastPath, error) { return nil, errLinux }

// LoadRule fails.
func LoadRule(string, *slog.Logger) (*Rule, error) { return nil, errLinux }

// Devices fails.
func Devices(netip.Addr) ([]int, error) { return nil, errLinux }

// Route fails.
func Route(netip.Addr, netip.AddrPort) (netip.Addr, int, error) { return netip.Addr{}, 0, errLinux }

// The types below have no values here, but nil pointers: their methods are those that the code for all systems names.

// FastPath exists on Linux only.
type FastPath struct{ fastPath }

type fastPath interface {
	claim.Forwarder
	Attach(devices ...int) error
	Forwards() bool
	MaxSubscribers() int
	ThreadsCopies() uint64
	Counts() (map[string]uint64, error)
	Copies(claim.ForwarderConn) map[string]uint64
	AwaitRuns() bool
	Measure(on bool)
	Delays() (delay.Histogram, error)
	NewRTPMedia(RTPSource) (*RTPMedia, error)
	Close() error
}

// Rule exists on Linux only.
type Rule struct{ rule }

type rule interface {
	claim.Rule
	String() string
	Close() error
}

// RTPMedia exists on Linux only.
type RTPMedia struct{ rtpMedia }

type rtpMedia interface {
	Take(RTPPacket) RTPServed
	Await()
	Pause(paused bool)
	Join(RTPPath, *rtpframe.Flow) *RTPPlayer
	Frames(func(*rtpframe.Frames)) bool
	Close()
}

// RTPPlayer exists on Linux only.
type RTPPlayer struct{ rtpPlayer }

type rtpPlayer interface {
	Flow(func(*rtpframe.Flow))
	Forward(on bool)
	Sent() (packets, octets uint64)
	Leave()
}

// Has returns false.
func (*RTPServed) Has(*RTPPlayer) bool { return false }

// NewTrack returns nil.
func (*FastPath) NewTrack() *ForwardedTrack { return nil }

// ForwardedTrack exists on Linux only. As there, the methods of nil do nothing.
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
