package measure

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Points where packets come into a relay, and go out of it.
const (
	In = iota
	Out
)

// Packet is a UDP packet that passed a point of measurement.
type Packet struct {
	Time   time.Duration // CLOCK_MONOTONIC, taken in the kernel
	Point  int           // index of the lab.Point
	Flow   Flow
	Length int    // of the UDP payload, bytes
	Hash   uint64 // of Length and the first 32 bytes of the payload: the same for the same packet at another point
}

// Flow is the direction and the addresses of a UDP packet.
type Flow struct {
	Source, Target netip.AddrPort
}

// SortByTime sorts packets that several CPUs recorded, and returns them.
func SortByTime(packets []Packet) []Packet {
	slices.SortStableFunc(packets, func(a, b Packet) int { return cmp.Compare(a.Time, b.Time) })
	return packets
}
