package fastpath

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"unsafe"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/internal/logs"
)

// FastPath is the kernel as the forwarder of a media loop.
type FastPath struct {
	kernel     *kernel
	log        *logs.Sparse
	debug      *slog.Logger // gets all
	registry   *registry
	room       *room
	reclaimer  *reclaimer
	states     []claim.ConnState   // memory that the programs share, by the connection's index
	streams    []claim.StreamState // by slot
	forwarding atomic.Int64        // tracks that have a publisher
	ended      atomic.Uint32       // streams in the map of ended ones

	maxSubscribers int // of a track

	// life is held for reading while the maps and the memory are used by functions that may be called after Close.
	life sync.RWMutex
	over bool // guarded by life
}

var _ claim.Forwarder = (*FastPath)(nil)

// New loads the programs. They do nothing until they are attached to a device. logger gets the messages that an
// operator can act on.
func New(s Settings, logger *slog.Logger) (*FastPath, error) {
	k, err := load(s)
	if err != nil {
		return nil, explain(err)
	}
	return newFastPath(k, s, logger), nil
}

func newFastPath(k *kernel, s Settings, logger *slog.Logger) *FastPath {
	f := &FastPath{
		kernel: k, log: logs.NewSparse(logger), debug: logger, registry: new(registry),
		states: cast[claim.ConnState](k.conns), streams: cast[claim.StreamState](k.streams),
		maxSubscribers: cmp.Or(s.MaxCopies, DefaultMaxCopies),
	}
	k.workers.report = f.report
	f.room = &room{fast: f}
	f.registry.addConns(min(madeOfAll(k.byConn), k.maxConns))
	f.registry.addTracks(min(madeOfAll(k.byTrack), k.maxTracks))
	f.reclaimer = newReclaimer(f)
	return f
}

// cast gives elements that the programs share their type in package claim, which has the same layout.
func cast[To, From any](elements []From) []To {
	return unsafe.Slice((*To)(unsafe.Pointer(unsafe.SliceData(elements))), len(elements))
}

// Attach attaches the programs to devices, by index, for the publishers and subscribers behind these devices.
func (f *FastPath) Attach(devices ...int) error {
	for _, d := range devices {
		if others(d) > 0 {
			const others = "programs of another relay are attached to the device; each handles its own connections"
			f.log.Log(slog.LevelInfo, fmt.Sprint(others, d), others, "ifindex", d)
		}
		if err := f.kernel.Attach(d); err != nil {
			return explain(err)
		}
	}
	return nil
}

// Forwards reports whether there is a track that the kernel forwards. It is one atomic load.
func (f *FastPath) Forwards() bool { return f.forwarding.Load() > 0 }

// MaxSubscribers is how many subscribers of a track the kernel serves at most.
func (f *FastPath) MaxSubscribers() int { return f.maxSubscribers }

// WorkersCopies is how many copies the workers have made of RTP packets, at most.
func (f *FastPath) WorkersCopies() uint64 {
	w := f.kernel.workers
	return w.runs.Load() * uint64(w.chunk)
}

var errClosed = errors.New("fast path: closed")

// Close detaches the programs. The loop must be closed before.
func (f *FastPath) Close() error {
	for _, c := range f.registry.close() {
		c.Close()
	}
	f.reclaimer.close()
	f.life.Lock()
	defer f.life.Unlock()
	f.over = true
	return f.kernel.Close()
}

// enter keeps maps and memory open until exit. It returns false if they are closed already.
func (f *FastPath) enter() bool {
	f.life.RLock()
	if f.over {
		f.life.RUnlock()
		return false
	}
	return true
}

func (f *FastPath) exit() { f.life.RUnlock() }

// AwaitRuns returns when all runs of programs that have begun before have ended, and sockets have the packets that
// these runs were about: Linux delivers a packet in the same RCU read-side section in which programs see it. It takes
// some milliseconds, unless a virtual machine's CPU does not run in the middle of that. It reports false if the fast
// path is closed.
func (f *FastPath) AwaitRuns() bool {
	if !f.enter() {
		return false
	}
	defer f.exit()
	f.kernel.awaitUnused()
	return true
}

// NewConn implements [claim.Memory]. If many connections come at once it waits some 10 ms for memory.
func (f *FastPath) NewConn() *claim.ConnState {
	if !f.enter() {
		return nil
	}
	defer f.exit()
	defer f.reclaimer.provide()
	for {
		if i, ok := f.registry.take(&f.registry.ready); ok {
			return &f.states[i]
		}
		if i, ok := f.registry.take(&f.registry.free); ok {
			return f.lendLedger(i)
		}
		if !f.room.conns(1) {
			return nil
		}
	}
}

func (f *FastPath) lendLedger(index uint32) *claim.ConnState {
	if err := f.kernel.ledgers.lend(index); err != nil {
		f.report("provide memory", err)
		f.registry.put(&f.registry.free, index)
		return nil
	}
	return &f.states[index]
}

// FreeConn implements [claim.Memory]. The state of a connection is freed when the connection is closed.
func (f *FastPath) FreeConn(*claim.ConnState) {}

// Ledger implements [claim.Memory].
func (f *FastPath) Ledger(s *claim.ConnState, n int) []claim.Record {
	i, ok := indexOf(f.states, s)
	if !ok || n > claim.LedgerLen {
		return nil
	}
	return f.kernel.ledgers.of(uint32(i))
}

// NewStream implements [claim.Memory]: only the media sender sends streams that have no publisher's stream.
func (f *FastPath) NewStream() *claim.StreamState { return nil }

// FreeStream implements [claim.Memory].
func (f *FastPath) FreeStream(*claim.StreamState) {}

// indexOf returns the index of the element that p points to, if it points to one.
func indexOf[T any](elements []T, p *T) (int, bool) {
	i := (uintptr(unsafe.Pointer(p)) - uintptr(unsafe.Pointer(unsafe.SliceData(elements)))) / unsafe.Sizeof(*p)
	return int(i), i < uintptr(len(elements))
}

// Connect implements [claim.Forwarder].
func (f *FastPath) Connect(s *claim.ConnState, abandon func(*claim.StreamState)) claim.ForwarderConn {
	i, ok := indexOf(f.states, s)
	if !ok {
		panic("fastpath: Connect with a state that NewConn did not return")
	}
	c := &conn{
		fast: f, index: uint32(i), abandon: abandon, since: monotonic(),
		ids: make(map[string]struct{}),
	}
	c.subscribing = subscribing{
		conn: c, slots: make(map[bpf.DownstreamKey]uint32), keys: make(map[uint32]bpf.DownstreamKey),
	}
	c.publishing.conn, c.read, c.awaited = c, make(map[uint64]struct{}), make(map[uint64]chan struct{})
	c.sealing.index, c.opening.index = ringsOf(c.index)
	c.received.Store(-1)
	c.prepareAt.Store(never)
	f.registry.connect(c)
	return c
}

// report logs an error that should not happen. If a peer has found a way to cause it, the log does not grow without
// bounds.
func (f *FastPath) report(operation string, err error) {
	if err != nil {
		f.log.Log(slog.LevelError, operation, "fast path", "operation", operation, "error", err)
	}
}
