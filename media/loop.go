package media

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"

	"sluice/claim"
	"sluice/clock"
	"sluice/internal/bounds"
	"sluice/internal/udp"
)

// LoopConfig is the configuration of a [Loop]. The zero value is the default.
type LoopConfig struct {
	// Shards is how many goroutines send. Default: GOMAXPROCS, at most 8.
	Shards int
	// Memory provides the state that the forwarder may share. If it is a claim.Forwarder, that takes part. Default:
	// the heap.
	Memory claim.Memory
	// NoGSO sends every packet as a datagram of its own, even where the kernel could segment.
	NoGSO bool
	// Logger is used for problems that an operator can solve. Default: slog.Default().
	Logger *slog.Logger
}

const maxShards = 64

// Loop sends the packets of many senders on one UDP socket, in batches, with few goroutines. Each sender belongs to
// one of its shards.
type Loop struct {
	memory    claim.Memory
	forwarder claim.Forwarder // memory, if it is one
	clock     clock.Clock
	log       *slog.Logger
	shards    []*shard
	next      atomic.Uint32 // shard for a new sender
	done      sync.WaitGroup
	writes    udp.Counters

	mu      sync.Mutex
	retired Counters // of senders that have closed
}

// NewLoop starts a loop that sends on a socket, from which quic-go reads. It does not close the socket.
func NewLoop(pc net.PacketConn, cfg LoopConfig) (*Loop, error) {
	if err := bounds.Check("shards", cfg.Shards, 0, maxShards); err != nil {
		return nil, err
	}
	l := newLoop(cfg, clock.NewSystem())
	for range cmp.Or(cfg.Shards, min(runtime.GOMAXPROCS(0), 8)) {
		sock, err := udp.NewSocket(pc, !cfg.NoGSO, &l.writes)
		if err != nil {
			return nil, fmt.Errorf("media sender: %w", err)
		}
		sh := newShard(l, sock)
		sh.queue = len(l.shards)
		l.shards = append(l.shards, sh)
	}
	for _, sh := range l.shards {
		l.done.Go(sh.run)
	}
	return l, nil
}

func newLoop(cfg LoopConfig, c clock.Clock) *Loop {
	l := &Loop{memory: cfg.Memory, clock: c, log: cfg.Logger}
	if l.memory == nil {
		l.memory = claim.Heap{}
	}
	l.forwarder, _ = l.memory.(claim.Forwarder)
	if l.log == nil {
		l.log = slog.Default()
	}
	return l
}

// NewSender makes the sender of one connection: give it to quic-go as the connection's hooks.
func (l *Loop) NewSender(cfg SenderConfig) *Sender {
	return newSender(l, l.shards[l.next.Add(1)%uint32(len(l.shards))], cfg)
}

// Close ends all streams, stops sending and waits for that. Afterwards only methods that read may be used.
func (l *Loop) Close() error {
	for _, sh := range l.shards {
		sh.close()
	}
	l.done.Wait()
	return nil
}

// LoopStats counts what went through the socket.
type LoopStats struct {
	Packets  uint64            // handed to the system
	Messages uint64            // datagrams and GSO trains
	Calls    uint64            // system calls
	Errors   map[string]uint64 // messages that the system refused, by reason
	GSO      bool              // trains are in use
	Senders  int               // whose handshake is confirmed
	Counters Counters          // of all senders, also of those that have closed
}

// Stats returns counters.
func (l *Loop) Stats() LoopStats {
	w := l.writes.Counts()
	st := LoopStats{Packets: w.Packets, Messages: w.Messages, Calls: w.Calls, Errors: w.Failures, GSO: w.GSO}
	for _, sh := range l.shards {
		for _, s := range sh.registered() {
			s.mu.Lock()
			if c := s.countersLocked(); !s.closed {
				st.Counters.add(&c)
				st.Senders++
			}
			s.mu.Unlock()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	st.Counters.add(&l.retired)
	return st
}

// Sent returns how many packets were handed to the system. It is one atomic load.
func (l *Loop) Sent() uint64 { return l.writes.Packets() }

// retire keeps the counters of a sender that has closed.
func (l *Loop) retire(c Counters) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retired.add(&c)
}

// newConnState returns the state of a new connection. Memory that the forwarder shares is taken when the handshake
// has keys: most Initial packets may come from peers that do not go on.
func (l *Loop) newConnState() *claim.ConnState {
	if l.forwarder != nil {
		return new(claim.ConnState)
	}
	if s := l.memory.NewConn(); s != nil {
		return s
	}
	return new(claim.ConnState)
}

func (l *Loop) newStreamState() *claim.StreamState {
	if s := l.memory.NewStream(); s != nil {
		return s
	}
	return new(claim.StreamState)
}
