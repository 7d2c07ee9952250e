package media

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"sluice/claim"
	"sluice/clock"
	"sluice/congestion"
	"sluice/internal/packet"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
)

// ErrClosed says that the subscription, its connection or the loop has ended.
var ErrClosed = errors.New("media sender is closed")

// SenderConfig is the configuration of a [Sender]. The zero value is the default.
type SenderConfig struct {
	// NewController makes the congestion controller, for packets of at most mtu bytes. Default: [NewCubic].
	NewController func(mtu int) congestion.Controller
	// DropPolicy says what is not sent under congestion. It must not be shared. Default: everything is sent.
	DropPolicy DropPolicy
	// Events is told what happens. Default: nobody.
	Events Events
	// MaxBehindBytes and MaxBehind are how many bytes, and how long, a subscription may lag before [Events.TooFarBehind]. Defaults:
	// 32 MiB and 30 s. Negative: no limit.
	MaxBehindBytes int64
	MaxBehind      time.Duration
	// MaxUDPPayloadSize caps the max_udp_payload_size that is advertised to the peer, in bytes. Default: no cap.
	MaxUDPPayloadSize int
	// Client says that this end of the connection is the QUIC client. It must not use 0-RTT.
	Client bool
}

const (
	defaultMaxBehindBytes = 32 << 20
	defaultMaxBehind      = 30 * time.Second
)

func (c SenderConfig) withDefaults() SenderConfig {
	if c.NewController == nil {
		c.NewController = congestion.NewCubic
	}
	if c.Events == nil {
		c.Events = NoEvents{}
	}
	c.MaxBehindBytes = cmp.Or(c.MaxBehindBytes, defaultMaxBehindBytes)
	c.MaxBehind = cmp.Or(c.MaxBehind, defaultMaxBehind)
	return c
}

// Sender sends all subscription data of one connection, which it shares with quic-go through the [quic.Hooks] that it implements. It
// needs little memory until something is sent.
type Sender struct {
	loop   *Loop
	shard  *shard
	cfg    SenderConfig
	state  *claim.ConnState                // guarded by mu, as a pointer
	common atomic.Pointer[claim.ConnState] // the same, for those who do not hold mu

	dataWanted atomic.Bool // new data waits for connection flow control credit
	keyDue     atomic.Bool

	// Guarded by shard.mu, and known to the shard's goroutine only.
	queued     bool
	alarm      clock.Time
	alarmIndex int

	mu       sync.Mutex
	after    []func() // to be called by unlockAndTell
	closed   bool
	suite    uint16 // of TLS
	seal     packet.Sealer
	keyFirst uint64 // lowest packet number of the current key generation
	keyLimit uint64 // packets that it may protect
	route    *route // nil: packets may not be sent yet
	mtu      int    // largest packet on the path, in bytes
	params   quic.PeerParameters

	streams          []*Stream          // in no order
	byNumber         map[uint32]*Stream // those that were opened
	ready            scheduler
	parked           [parkedID + 1][]*Stream
	parkedStreams    int
	resets           []*Stream // whose RESET_STREAM is to be sent
	blocked          []blockedFrame
	dataBlockedAt    int64 // limit that DATA_BLOCKED was sent for; -1: none
	streamsBlockedAt int64 // limit that STREAMS_BLOCKED was sent for; -1: none

	forwarder claim.ForwarderConn // nil: nobody else sends
	nobody    *Subscription       // of streams that were abandoned
	connIDs   []quic.ConnectionID // of ours, until there is the forwarder
	known     spans               // numbers of streams that were opened here or adopted
	unadopted map[uint32]*unadopted
	forgotten uint32 // streams with lower numbers may have been orphans that could not be kept

	ledger       claim.Ledger
	low          uint64 // numbers below it are neither outstanding nor to come
	settled      uint64 // records of numbers below it are written
	largestAcked uint64
	skipAt       uint64
	lostRecently []lostPacket
	reordering   uint64     // packet threshold (RFC 9002 §6.1.1)
	lossTime     clock.Time // when the time threshold is reached next; never: not at all
	lastSent     clock.Time
	ptoCount     int
	probes       int // packets that may be sent beyond the window
	ping         bool
	bigLost      int // packets larger than baseMTU lost since one was acknowledged

	rtt              congestion.RTT
	control          congestion.Controller
	pacer            congestion.Pacer
	limitedTo        uint64 // packets before it were sent while window or pacing held data back
	subgroupDeadline clock.Time
	deadline         clock.Time // of the alarm

	threshold Level
	look      clock.Time // at data that waits; never: nothing waits
	levels    []Backlog

	counters Counters
}

func newSender(l *Loop, sh *shard, cfg SenderConfig) *Sender {
	s := &Sender{
		loop: l, shard: sh, cfg: cfg.withDefaults(), state: l.newConnState(), alarmIndex: -1,
		dataBlockedAt: -1, streamsBlockedAt: -1, reordering: packetThreshold,
		lossTime: clock.Never, subgroupDeadline: clock.Never, deadline: clock.Never, look: clock.Never, threshold: LowestPriority,
	}
	s.common.Store(s.state)
	s.state.NextUni.Store(3) // RFC 9000 §2.1
	if cfg.Client {
		s.state.NextUni.Store(2)
	}
	s.state.Threshold.Store(uint32(LowestPriority))
	return s
}

// unlock unlocks mu. If anybody is to be told of something, the shard's goroutine does that: the caller, or somebody who waits for the
// caller, may hold locks that they need.
func (s *Sender) unlock() {
	tell := len(s.after) > 0
	s.mu.Unlock()
	if tell && !s.shard.enqueue(s) {
		go s.tell() // the loop is closed
	}
}

func (s *Sender) tell() {
	s.mu.Lock()
	s.unlockAndTell()
}

// unlockAndTell unlocks mu and calls back whoever is to be told.
func (s *Sender) unlockAndTell() {
	after := s.after
	s.after = nil
	s.mu.Unlock()
	for _, f := range after {
		f()
	}
}

// begin takes a packet number, after having enlarged the ledger if necessary. Now and then it skips one: a peer that acknowledges what
// it cannot have received would gain an unfair share of the path (RFC 9000 §21.4).
func (s *Sender) begin(now clock.Time) (number, generation uint64, ok bool) {
	for {
		number, generation, ok = s.state.Begin(s.ledger)
		switch {
		case !ok && !s.growLedger():
			return 0, 0, false
		case !ok:
		case number < s.skipAt:
			return number, generation, true
		default:
			s.state.Commit(s.ledger, number, now, 0, claim.NewInfo(0, 0, 0, claim.KindSkipped))
			s.skipAt = number + skipInterval()
		}
	}
}

func skipInterval() uint64 { return 500 + rand.Uint64N(5000) }

const (
	firstLedger = 128     // records: 4 KiB, enough for 1 Mbit/s on most paths
	idleLedger  = 1024    // records that a silent sender keeps
	maxLedger   = 1 << 15 // records
)

// makeRoom makes sure that there is room in the ledger. quic-go's numbers need none, but they move the window of numbers that it covers.
func (s *Sender) makeRoom() bool {
	if len(s.ledger) == 0 {
		return s.growLedger()
	}
	if s.state.Room(s.ledger) {
		return true
	}
	s.advance(s.state.NextPN.Load() & claim.NumberMask)
	return s.state.Room(s.ledger) || s.growLedger()
}

// growLedger doubles the ledger.
func (s *Sender) growLedger() bool {
	n := max(2*len(s.ledger), firstLedger)
	if n > maxLedger {
		return false
	}
	ring := s.loop.memory.Ledger(s.state, n)
	if ring == nil {
		return false
	}
	next := s.state.NextPN.Load() & claim.NumberMask
	if s.ledger == nil {
		s.low, s.settled = next, next
		s.state.LedgerLow.Store(next)
		s.skipAt = next + skipInterval()
	}
	s.ledger = s.ledger.Grown(ring, s.low, next)
	s.setMTU(s.mtu)
	return true
}

// shrinkLedger gives a large ledger back when nothing is outstanding and no alarm is set: bursts are rare, subscribers many.
func (s *Sender) shrinkLedger() {
	if s.deadline == clock.Never && len(s.ledger) > idleLedger && s.loop.memory == (claim.Heap{}) {
		s.ledger = nil
	}
}

// canSend says if packets may be sent at all.
func (s *Sender) canSend() Reason {
	switch {
	case s.route == nil:
		return BlockedPath
	case !s.seal.Ready():
		return BlockedKey
	case s.state.NextPN.Load()&claim.NumberMask-s.keyFirst >= s.keyLimit:
		return BlockedKey
	case !s.makeRoom():
		return BlockedLedger
	}
	return none
}
