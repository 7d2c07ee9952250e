package media

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"sluice/claim"
	"sluice/clock"
	"sluice/internal/bounds"
	"sluice/internal/delay"
	"sluice/internal/udp"
)

// LoopConfig is the configuration of a [Loop]. The zero value is the default.
type LoopConfig struct {
	// Shards is how many goroutines send, at least one on each socket, at most 64. Default: GOMAXPROCS.
	Shards int
	// Forwarder sends on the same connections. Default: there is none.
	Forwarder claim.Forwarder
	// Rule decides what may go instead of [claim.ConnState.Admit]. The forwarder must have the same one. Default: none.
	Rule claim.Rule
	// NoGSO sends every packet as a datagram of its own, even where the kernel could segment.
	NoGSO bool
	// Logger is used for problems that an operator can solve. Default: slog.Default().
	Logger *slog.Logger
}

const maxShards = 64

// Loop sends the packets of many senders on the UDP sockets of one port, in batches, with few goroutines. Each sender
// belongs to one of its shards, and each shard to one of the sockets.
type Loop struct {
	forwarder claim.Forwarder // nil: none
	rule      claim.Rule      // nil: the built-in one
	clock     clock.Clock
	log       *slog.Logger
	shards    []*shard
	sockets   []net.PacketConn
	shardsOf  [][]*shard            // by socket
	next      atomic.Uint32         // shard for a new sender
	measuring atomic.Bool           // delays
	random    func(n uint64) uint64 // a number below n
	done      sync.WaitGroup

	mu      sync.Mutex
	retired Counters // of senders that have closed
}

// NewLoop starts a loop that sends on sockets, at least one, from which quic-go reads. It does not close them.
func NewLoop(cfg LoopConfig, sockets ...net.PacketConn) (*Loop, error) {
	if err := bounds.Check("shards", cfg.Shards, 0, maxShards); err != nil {
		return nil, err
	}
	l := newLoop(cfg, clock.NewSystem())
	l.sockets, l.shardsOf = sockets, make([][]*shard, len(sockets))
	for i := range max(len(sockets), cmp.Or(cfg.Shards, min(runtime.GOMAXPROCS(0), maxShards))) {
		writes := new(udp.Counters)
		socket := i % len(sockets)
		sock, err := udp.NewSocket(sockets[socket], !cfg.NoGSO, writes)
		if err != nil {
			return nil, fmt.Errorf("media sender: %w", err)
		}
		sh := newShard(l, sock, writes)
		l.shards, l.shardsOf[socket] = append(l.shards, sh), append(l.shardsOf[socket], sh)
	}
	for _, sh := range l.shards {
		l.done.Go(sh.run)
	}
	return l, nil
}

func newLoop(cfg LoopConfig, c clock.Clock) *Loop {
	l := &Loop{forwarder: cfg.Forwarder, rule: cfg.Rule, clock: c, log: cfg.Logger, random: rand.Uint64N}
	if l.log == nil {
		l.log = slog.Default()
	}
	return l
}

// NewSender makes the sender of one connection: give its Hooks to quic-go.
func (l *Loop) NewSender(cfg SenderConfig) *Sender {
	shards := l.shards
	if socket := slices.Index(l.sockets, cfg.Socket); socket >= 0 {
		shards = l.shardsOf[socket]
	}
	return newSender(l, shards[l.next.Add(1)%uint32(len(shards))], cfg)
}

// Close ends all streams, stops sending and waits for that. Afterwards only methods that read may be used.
func (l *Loop) Close() error {
	for _, sh := range l.shards {
		sh.close()
	}
	l.done.Wait()
	return nil
}

// LoopStats counts what went through the sockets.
type LoopStats struct {
	Packets  uint64            // handed to the system
	Messages uint64            // datagrams and GSO trains
	Calls    uint64            // system calls
	Errors   map[string]uint64 // messages that the system refused, by reason
	GSO      bool              // trains are in use
	Senders  int               // whose handshake is confirmed
	Open     int               // streams that have not ended
	Waiting  int               // of these, for credit
	Queued   int               // of these, for more than their own credit
	Followed int               // logs of which streams are sent as they grow, counted once for each shard
	Counters Counters          // of all senders, also of those that have closed
}

// Stats returns counters.
func (l *Loop) Stats() LoopStats {
	st, senders := l.look()
	st.Counters = l.total(senders)
	return st
}

// look returns all but LoopStats.Counters, and the open senders with their counters.
func (l *Loop) look() (st LoopStats, senders map[*Sender]Counters) {
	st.Errors, senders = make(map[string]uint64), make(map[*Sender]Counters)
	for _, sh := range l.shards {
		w := sh.writes.Counts()
		st.Packets += w.Packets
		st.Messages += w.Messages
		st.Calls += w.Calls
		st.GSO = w.GSO
		for reason, n := range w.Failures {
			st.Errors[reason] += n
		}
		st.Followed += sh.followed()
		for _, s := range sh.registered() {
			s.mu.Lock()
			if !s.closed {
				senders[s] = s.countersLocked()
				st.Open += len(s.streams.all)
				st.Waiting += s.credit.parked
				st.Queued += len(s.credit.waiting[parkedConn]) + len(s.credit.waiting[parkedID])
			}
			s.mu.Unlock()
		}
	}
	st.Senders = len(senders)
	return st, senders
}

// total sums up the counters of senders, and of all that have closed. One that has closed meanwhile counts once: the
// sum never goes back.
func (l *Loop) total(senders map[*Sender]Counters) Counters {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.retired
	for s, c := range senders {
		if !s.retired {
			all.add(&c)
		}
	}
	return all
}

// Sent returns how many packets were handed to the system. It costs an atomic load for each shard.
func (l *Loop) Sent() (packets uint64) {
	for _, sh := range l.shards {
		packets += sh.writes.Packets()
	}
	return packets
}

// SentOn returns how many packets were handed to the system on a socket, by its index, without those that only ask for
// fewer or more ACKs. One of these may be missing for a moment before it was handed over.
func (l *Loop) SentOn(socket int) (packets uint64) {
	for _, sh := range l.shardsOf[socket] {
		asked := sh.asked.Load()
		packets += max(sh.writes.Packets(), asked) - asked
	}
	return packets
}

// retire keeps the counters of a sender that closes.
func (l *Loop) retire(s *Sender, c Counters) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.retired = true
	l.retired.add(&c)
}

// Measure turns the measurement of delays on or off: the time from when the process reads a publisher's packet until
// the system has taken a packet with its bytes. Bytes from before the subscription do not count, nor do those that are
// sent again.
func (l *Loop) Measure(on bool) { l.measuring.Store(on) }

// Delays returns the measured delays.
func (l *Loop) Delays() (h delay.Histogram) {
	for _, sh := range l.shards {
		sh.delays.AddTo(&h)
	}
	return h
}
