package fastpath

import (
	"cmp"
	"errors"
	"math"
	"runtime"
	"time"

	"sluice/claim"
	"sluice/internal/bounds"
	"sluice/moqt"
)

// Settings are fixed when the programs are loaded. The zero value of a field is its default, except for Port.
type Settings struct {
	// Port is the UDP port of the relay.
	Port uint16
	// RTPPort is the UDP port for RTP of RTSP clients. Default: none, and the program for RTP is not loaded.
	RTPPort uint16
	// ConnectionIDLen is the length of the relay's connection IDs in bytes, 0 to 20. They all have the same length.
	ConnectionIDLen int
	// MaxCopies bounds the copies that one packet causes, and so the time that it keeps its CPU: 2.5 to 5 µs for each.
	// The media sender serves the other subscribers of a track. Default: DefaultMaxCopies, at most MaxSubscriptions.
	MaxCopies int
	// Workers is how many goroutines make the copies of an RTP packet beyond MaxCopies. Without any, user space serves
	// the other players. At most MaxWorkers; default: none. DefaultWorkers suits most machines.
	Workers int
	// MaxConnections is how many connections take part; the media sender alone serves the others. A connection that
	// takes part needs 34 KiB of memory; each possible one needs 1.5 KiB at all times. Default: 512.
	MaxConnections int
	// MaxTracks is how many tracks can be on the fast path; the media sender alone serves the others. It should be as
	// many as the relay itself can have, else a session with many tracks keeps the tracks of others from the fast path.
	// Each possible one needs 48 bytes at all times. Default: DefaultMaxTracks.
	MaxTracks int
	// MaxSubgroups is how many subgroup streams of publishers the kernel forwards at a time, or remembers for 10 s
	// after their end. One publisher may have as many of them as are free. Each takes 200 bytes until it is forgotten,
	// and each possible one needs 64 bytes at all times. Default: DefaultMaxSubgroups.
	MaxSubgroups int
	// MaxObjects is how many objects in datagrams the kernel can claim within 10 s. One publisher may have as many of
	// them as are free. Each takes 100 bytes for that time, and each possible one needs 16 bytes at all times. Default:
	// DefaultMaxObjects.
	MaxObjects int
	// Rule is an operator's, see [LoadRule]. Default: the built-in one.
	Rule *Rule

	chunk       int           // copies that a run of a worker makes; default: defaultChunk
	jobLifetime time.Duration // default: jobLifetime
}

// DefaultMaxCopies keeps the median of the programs' runs below 200 µs on the project's machine, when packets are as
// large as publishers send them and their key streams were made ahead of time. With more subscribers, user space, which
// sends several packets of a subscriber by one call, needs less CPU.
const DefaultMaxCopies = 64

// DefaultWorkers returns one worker for each processor, but not more than MaxWorkers.
func DefaultWorkers() int { return min(runtime.GOMAXPROCS(0), MaxWorkers) }

// The defaults and limits of Settings.
const (
	DefaultMaxConnections = 512
	MaxConnections        = 1 << 16 // 96 MiB at all times

	DefaultMaxTracks = 65536 // a relay's default
	MaxTracks        = 1 << 20

	DefaultMaxSubgroups = 16384 // 500 tracks with 3 streams a second, remembered for 10 s
	MinSubgroups        = 64    // so that a few publishers have a share
	MaxSubgroups        = 1 << 20

	DefaultMaxObjects = 65536 // 100 tracks with 60 objects a second
	MinObjects        = 64
	MaxObjects        = 1 << 22

	MaxWorkers = 64 // 1,024 players, with chunks of 16, have no use for more

	maxConnectionIDLen = 20 // RFC 9000 §17.2
)

func (s *Settings) validate() error {
	return errors.Join(
		bounds.Check("fast path: Port", s.Port, 1, math.MaxUint16),
		bounds.Check("fast path: ConnectionIDLen", s.ConnectionIDLen, 0, maxConnectionIDLen),
		bounds.Check("fast path: MaxCopies", cmp.Or(s.MaxCopies, DefaultMaxCopies), 1, MaxSubscriptions),
		bounds.Check("fast path: Workers", s.Workers, 0, MaxWorkers),
		bounds.Check("fast path: MaxConnections", cmp.Or(s.MaxConnections, DefaultMaxConnections), 1, MaxConnections),
		bounds.Check("fast path: MaxTracks", cmp.Or(s.MaxTracks, DefaultMaxTracks), 1, MaxTracks),
		bounds.Check("fast path: MaxSubgroups", cmp.Or(s.MaxSubgroups, DefaultMaxSubgroups), MinSubgroups,
			MaxSubgroups),
		bounds.Check("fast path: MaxObjects", cmp.Or(s.MaxObjects, DefaultMaxObjects), MinObjects, MaxObjects))
}

// Subscriber is a downstream subscription to a track.
type Subscriber struct {
	Conn     claim.ForwarderConn // the subscriber's; nil and connections of other forwarders are ignored
	Alias    uint64              // the track's, for the subscriber
	Range    moqt.Range          // the objects that are wanted
	Forward  bool
	Priority uint8 // Subscriber Priority
}

// MaxUDPPayloadSize is the max_udp_payload_size to advertise to publishers, in bytes. A copy has longer headers than
// the packet that it is made from: up to 12 bytes more for the connection ID, 3 for the packet number, 14 for stream id
// and offset, and 23 for the headers of WebTransport and the subgroup. With them the copy fits into the 1,452 bytes
// that a path over Ethernet and IPv6 carries.
const MaxUDPPayloadSize = 1400

// HopGrowth is how many bytes longer a copy for another relay is, at most, than the packet of the publisher. Connection
// IDs are equally long there. Copies of copies are hardly any longer, because they have the same headers. So a relay
// advertises that much more to relays that it has dialed, else it would not get copies of a publisher's longest
// packets. A relay that announces its publishers to other relays advertises that much less to relays that dial it than
// these advertise: MaxUDPPayloadSize, or less if they announce, too.
const HopGrowth = 24
