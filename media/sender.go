package media

import (
	"bytes"
	"cmp"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"sluice/claim"
	"sluice/clock"
	"sluice/congestion"
	"sluice/internal/packet"
	"sluice/internal/unlucky"
)

// ErrClosed reports that the subscription, its connection or the loop has ended.
var ErrClosed = errors.New("media sender is closed")

// SenderConfig is the configuration of a [Sender]. The zero value is the default.
type SenderConfig struct {
	// NewController makes the congestion controller, for packets of at most mtu bytes. Default: [congestion.NewCubic].
	NewController func(mtu int) congestion.Controller
	// DropPolicy decides which data is not sent under congestion. It must not be shared. Default: everything is sent.
	DropPolicy DropPolicy
	// MaxBehindBytes is how many bytes of a subscription may be not sent or not acknowledged, and MaxBehind how long
	// bytes may be not sent, before SubscriptionConfig.OnBehind is called. Defaults: DefaultMaxBehindBytes,
	// DefaultMaxBehind. Negative: no limit.
	MaxBehindBytes int64
	MaxBehind      time.Duration
	// AckTimeout is how long a byte of a stream that was sent may be not acknowledged. Then the stream is reset with
	// DELIVERY_TIMEOUT, after at most twice that time. Without a limit, a peer that acknowledges all but the first
	// packets of streams would keep their logs for ever. Default: DefaultAckTimeout. Negative: no limit.
	AckTimeout time.Duration
	// MaxUDPPayloadSize caps the max_udp_payload_size that is advertised to the peer, in bytes. Default: no cap.
	MaxUDPPayloadSize int
	// Socket is the socket of the loop on which quic-go has the connection. The sender belongs to a shard of it.
	// Default: to any shard.
	Socket net.PacketConn
	// Apart keeps the connection from the loop's forwarder.
	Apart bool
	// Client is set if this end of the connection is the QUIC client, whose streams have other ids. It must not use
	// 0-RTT: that takes packet numbers before the sender knows the keys.
	Client bool
}

const (
	// DefaultMaxBehindBytes is more than one congestion window.
	DefaultMaxBehindBytes = 32 << 20
	// DefaultMaxBehind is a pause after which players begin anew.
	DefaultMaxBehind = 30 * time.Second
	// DefaultAckTimeout is the idle timeout that most QUIC endpoints use: a peer that acknowledges nothing for that
	// long has gone.
	DefaultAckTimeout = 30 * time.Second
)

func (c SenderConfig) withDefaults() SenderConfig {
	if c.NewController == nil {
		c.NewController = congestion.NewCubic
	}
	c.MaxBehindBytes = cmp.Or(c.MaxBehindBytes, DefaultMaxBehindBytes)
	c.MaxBehind = cmp.Or(c.MaxBehind, DefaultMaxBehind)
	c.AckTimeout = cmp.Or(c.AckTimeout, DefaultAckTimeout)
	return c
}

// Sender sends all subscription data of one connection, which it shares with quic-go through the [quic.Hooks] that it
// implements. It needs little memory until something is sent. Its methods may be called on any goroutine.
//
// A Sender is made of parts, each with its own file, that all share the lock mu: the methods of a part need it unless
// they say otherwise. The Sender's own methods take it, and dispatch.
type Sender struct {
	allocator // no lock
	loop      *Loop
	shard     *shard
	cfg       SenderConfig
	task      task // the shard's

	lastReceived atomic.Int64 // a clock.Time: when the last packet came, if delays are measured; no lock
	retired      bool         // its counters are in Loop.retired; guarded by Loop.mu

	mu senderLock

	// Guarded by mu.
	state    *claim.ConnState // shared with quic-go and the forwarder; parts have the same pointer
	params   quic.PeerParameters
	closed   bool
	counters Counters
	declined clock.Time // when an operator's rule declined something last; 0: never

	// Parts, from those that know no other to those that use many.
	ledger   ledger            // packet numbers and records
	keys     keys              // packet protection
	path     path              // where packets go and how large they are
	ecn      ecn               // whether packets are marked
	control  congestionControl // window and pacing
	credit   credit            // flow control
	ready    scheduler         // what has something to send
	streams  streamSet
	recovery recovery // finds losses
	acks     ackFrequency
	out      packets  // builds packets
	observer observer // looks at what waits
	link     forwarderLink
	read     readPackets // what quic-go does not see
	turn     turn        // chooses what to send next
}

// Hooks returns what quic-go calls of s.
func (s *Sender) Hooks() Hooks { return Hooks{s} }

func newSender(l *Loop, sh *shard, cfg SenderConfig) *Sender {
	s := &Sender{loop: l, shard: sh, cfg: cfg.withDefaults(), task: task{index: -1}}
	s.mu.sender = s
	s.ledger = ledger{random: l.random}
	s.path = path{ledger: &s.ledger}
	s.ecn = ecn{path: &s.path, counters: &s.counters}
	s.credit = credit{counters: &s.counters, dataBlockedAt: -1, streamsBlockedAt: -1}
	s.streams = streamSet{
		link: &s.link, credit: &s.credit, acks: &s.acks, counters: &s.counters, deadline: clock.Never,
	}
	s.recovery = recovery{
		ledger: &s.ledger, control: &s.control, ecn: &s.ecn, path: &s.path, streams: &s.streams, counters: &s.counters,
		reordering: packetThreshold, lossTime: clock.Never,
	}
	s.acks = ackFrequency{recovery: &s.recovery, control: &s.control, ledger: &s.ledger, counters: &s.counters}
	s.control.counters = &s.counters
	s.out = packets{&s.ledger, &s.keys, &s.path, &s.recovery, &s.acks, &s.control, &s.counters, nil}
	s.observer = observer{sender: s, limits: UpTo(LowestPriority), due: clock.Never, ackDue: clock.Never}
	s.link = forwarderLink{sender: s}
	s.read.own = true // until quic-go says otherwise
	s.turn = turn{sender: s, deadline: clock.Never}
	s.useState(new(claim.ConnState)) // until the forwarder takes part
	s.state.NextUni.Store(3)         // RFC 9000 §2.1
	if cfg.Client {
		s.state.NextUni.Store(2)
	}
	s.state.Threshold.Store(uint32(LowestPriority))
	return s
}

// useState makes all parts use a shared state.
func (s *Sender) useState(state *claim.ConnState) {
	s.state, s.ledger.state, s.control.state, s.credit.state, s.ecn.state = state, state, state, state, state
	s.allocator.state.Store(state)
}

// admit asks the rule of both senders about an object that is about to begin.
func (s *Sender) admit(a claim.Admission) claim.Verdict {
	r := s.loop.rule
	if r == nil {
		return s.state.Admit(a)
	}
	v := r.Admit(s.state, a)
	if v != claim.Admitted {
		s.declined = a.Now
	}
	return v
}

// ruleHolds is how long an operator's rule is taken to hold something back after it declined something: about a group,
// because what is left out of a subgroup is not asked about again.
const ruleHolds = 2 * time.Second

// dropping reports whether something is held back: by the limits of the drop policy or, as these are only hints for it,
// by an operator's rule.
func (s *Sender) dropping() bool {
	if s.loop.rule == nil {
		return s.observer.limits.hold()
	}
	return s.declined != 0 && s.loop.clock.Now().Sub(s.declined) < ruleHolds
}

// NewSubscription adds a subscription. Its Close releases it.
func (s *Sender) NewSubscription(cfg SubscriptionConfig) *Subscription {
	if cfg.ErrorCode == nil {
		cfg.ErrorCode = sameCode
	}
	if cfg.OnBehind == nil {
		cfg.OnBehind = func(int64, time.Duration) {}
	}
	return &Subscription{
		sender: s, errorCode: cfg.ErrorCode, onBehind: cfg.OnBehind, since: s.loop.clock.Now(),
		priority: cfg.Priority, descending: cfg.Descending, timeouts: cfg.Timeouts,
	}
}

// Forwarder returns the connection as the forwarder knows it, or nil if the forwarder takes no part.
func (s *Sender) Forwarder() claim.ForwarderConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link.conn
}

// SetSession tells the forwarder about the session. Until it is called, only the media sender sends.
func (s *Sender) SetSession(c claim.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link.setSession(c)
}

// Stats returns the state of the path and the counters.
func (s *Sender) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{
		State: s.control.path(), Counters: s.countersLocked(), CipherSuite: s.keys.suite,
		Controller: s.control.name(), Threshold: s.observer.limits.Threshold, Open: len(s.streams.all),
		BucketRate: s.observer.limits.Bucket.Rate, ECN: s.ecn.phase.String(), Ledger: len(s.ledger.records),
	}
}

// countersLocked returns the counters with those that the forwarder shares.
func (s *Sender) countersLocked() Counters {
	c := s.counters
	own := c.Packets
	c.Packets, c.Bytes = s.state.Packets.Load(), s.state.Bytes.Load()
	c.ForwarderPackets = c.Packets - own
	return c
}

// closeLocked ends all streams, and forgets the keys.
func (s *Sender) closeLocked() {
	if s.closed {
		return
	}
	s.closed = true
	s.path.route, s.path.plain, s.path.marked = nil, nil, nil
	s.state.MTU.Store(0)
	s.streams.close()
	s.keys.sealer.Erase()
	s.read.opener.Erase()
	s.credit.close()
	s.ledger.records = nil
	for _, q := range s.ready.beyond(-1) {
		q.drop(DatagramClosed)
	}
	s.loop.retire(s, s.countersLocked())
	s.link.disconnect()
}

// PeerMaxUDPPayloadSize returns the max_udp_payload_size that the peer has advertised, or 0 if that is not known yet.
func (s *Sender) PeerMaxUDPPayloadSize() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.params.MaxUDPPayloadSize)
}

// changePathLocked forgets the measurements of the old path (RFC 9000 §9.4).
func (s *Sender) changePathLocked() {
	if len(s.ledger.records) > 0 {
		s.ledger.forgetPath()
	}
	s.recovery.reset()
	s.control.reset(s.ledger.mtu)
	s.ecn.begin()
}

// ackedLocked processes an ACK frame.
func (s *Sender) ackedLocked(now clock.Time, a *quic.AckInfo) (time.Duration, error) {
	if s.closed || len(s.ledger.records) == 0 || len(a.Ranges) == 0 {
		return 0, nil
	}
	s.counters.Acks++
	rtt, err := s.recovery.receive(now, a)
	if err == nil && s.turn.wanted() {
		s.shard.enqueue(s)
	}
	return rtt, err
}

func (s *Sender) readLocked(p *quic.OfferedPacket) bool {
	r := &s.read
	if unlucky.Happens() || s.closed || s.leavesAcks() || len(s.ledger.records) == 0 || !s.onPath(p) {
		return false
	}
	number, frames, ok := r.opener.Open(p.Data, p.Header, r.expected())
	if !ok || !r.isNew(int64(number)) || !s.onlyAck(frames) {
		return false
	}
	received := s.loop.clock.At(p.Received)
	rtt, err := s.ackedLocked(received, &r.ack)
	if err != nil {
		r.err = err
		r.news.Store(true)
		return false // so that quic-go hears of it at once
	}
	if rtt > 0 {
		r.rtt, r.delay = rtt, r.ack.Delay
	}
	s.counters.ReadAcks++
	r.numbers.add(int64(number), int64(number)+1)
	r.marks[p.ECN&3]++
	r.last = max(r.last, received)
	r.news.Store(true)
	return true
}

// leavesAcks reports whether quic-go has to see the next ACK.
func (s *Sender) leavesAcks() bool {
	due := s.keys.due.Load() // with the next packet quic-go updates the keys
	return due || s.read.own || s.read.unseen || s.read.err != nil
}

// onPath reports whether a packet came on the path in use. quic-go validates other paths.
func (s *Sender) onPath(p *quic.OfferedPacket) bool {
	r := s.path.route
	if r == nil || addrPort(p.Remote) != r.Remote() {
		return false
	}
	return !s.cfg.Client || !p.Local.IsValid() || p.Local.Unmap() == r.local.Addr()
}

// onlyAck reports whether frames are one ACK frame, of packets that were sent, and PADDING. It parses the ACK.
func (s *Sender) onlyAck(frames []byte) bool {
	b := bytes.TrimLeft(frames, "\x00")
	if len(b) == 0 || b[0] != packet.FrameAck && b[0] != packet.FrameAckECN {
		return false
	}
	rest, err := packet.ParseAck(b, s.params.AckDelayExponent, &s.read.ack)
	if err != nil || len(bytes.TrimLeft(rest, "\x00")) > 0 {
		return false
	}
	return s.read.ack.Ranges[0].Largest < int64(s.ledger.next())
}

// LimitSession sets how many unidirectional streams the peer of a WebTransport session allows, and how many bytes on
// all streams without their headers, which are that long. It is called before anything is sent in the session, and
// again with higher limits. blocked is called when one of them is in the way, on a goroutine of the loop.
func (s *Sender) LimitSession(streams, data uint64, header int, blocked func(streams bool, limit uint64)) {
	s.mu.Lock()
	defer s.mu.release()
	l := s.credit.session
	if l == nil {
		l = &sessionLimits{
			header: header, dataBlockedAt: -1, others: s.state.NextUni.Load() / 4,
			blocked: func(streams bool, limit uint64) { s.mu.later(func() { blocked(streams, limit) }) },
		}
		s.credit.session = l
		l.taken.before.Store(int64(s.state.DataSent.Load()))
		s.allocator.quic.Store(&l.taken)
		s.credit.restrict()
	}
	l.data, l.streams = int64(data), l.others+streams
	moreData, moreStreams := s.credit.raiseData(), s.credit.setStreams(0)
	if moreData || moreStreams {
		s.shard.enqueue(s)
	}
}

// TakeSessionData takes up to n bytes of the session's limit for a stream of quic-go's, which has taken n of the
// connection's, and returns how many.
func (s *Sender) TakeSessionData(n int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.credit.session
	n -= min(max(int64(s.state.DataSent.Load())-l.dataLimit(), 0), n)
	l.quic += n
	return n
}

// LastReceived returns when the last packet came on the connection, or 0 if delays are not measured.
func (s *Sender) LastReceived() clock.Time {
	if !s.loop.measuring.Load() {
		return 0
	}
	return clock.Time(s.lastReceived.Load())
}
