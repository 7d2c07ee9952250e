package fastpath

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"unsafe"

	"sluice/claim"
	"sluice/fastpath/bpf"
)

// FastPath is the kernel as the second sender of a [media.Loop]: it has the memory that they share, the connections and
// the tracks.
type FastPath struct {
	kernel *kernel
	log    *slog.Logger
	states []claim.ConnState
	flows  []claim.StreamState

	life sync.RWMutex // held to read while the kernel's memory and maps are used by those who may come after Close
	over bool

	mu          sync.Mutex
	conns       []*conn  // by index; nil: free, or taken and not connected yet
	free        []uint32 // indices that have no memory
	ready       []uint32 // free indices that have
	tracks      []*Track // by index
	freeIndices []uint32 // of tracks
	closed      bool

	forwarding atomic.Int64 // tracks that have a publisher
	reclaimer  *reclaimer
}

var _ claim.Forwarder = (*FastPath)(nil)

// New loads the programs. They do nothing until they are attached to a device. logger gets what an operator can do
// something about.
func New(s Settings, logger *slog.Logger) (*FastPath, error) {
	k, err := load(s)
	if err != nil {
		return nil, explain(err)
	}
	f := &FastPath{
		kernel: k, log: logger,
		states: cast[claim.ConnState](k.conns), flows: cast[claim.StreamState](k.streams),
		conns: make([]*conn, len(k.conns)),
	}
	for i := range uint32(len(k.conns)) {
		f.free = append(f.free, i)
	}
	f.tracks = make([]*Track, k.ingress.Tracks.MaxEntries())
	for i := range f.tracks {
		f.freeIndices = append(f.freeIndices, uint32(i))
	}
	f.reclaimer = newReclaimer(f)
	return f, nil
}

// cast gives elements that the kernel's programs share the type that package media has for them, of the same layout.
func cast[To, From any](elements []From) []To {
	return unsafe.Slice((*To)(unsafe.Pointer(unsafe.SliceData(elements))), len(elements))
}

// Attach attaches the programs to devices, by index, for publishers and subscribers that are reached by them.
func (f *FastPath) Attach(devices ...int) error {
	for _, d := range devices {
		if others(d) > 0 {
			f.log.Warn("programs of another relay are attached to the same device; each looks at the packets of its own port", "ifindex", d)
		}
		if err := f.kernel.Attach(d); err != nil {
			return explain(err)
		}
	}
	return nil
}

// Forwards says if there is a track that the kernel forwards. It costs next to nothing.
func (f *FastPath) Forwards() bool { return f.forwarding.Load() > 0 }

// Counts returns how often the programs left by each way, by name.
func (f *FastPath) Counts() (map[string]uint64, error) {
	if !f.enter() {
		return nil, errClosed
	}
	defer f.exit()
	return f.kernel.Counts()
}

var errClosed = errors.New("fast path: closed")

// Close detaches the programs. The loop must have been closed before.
func (f *FastPath) Close() error {
	f.mu.Lock()
	conns := f.conns
	f.closed, f.conns = true, make([]*conn, len(conns))
	f.mu.Unlock()
	for _, c := range conns {
		if c != nil {
			c.Close()
		}
	}
	f.reclaimer.close()
	f.life.Lock()
	defer f.life.Unlock()
	f.over = true
	return f.kernel.Close()
}

// enter keeps the kernel's part from being closed until exit, unless that has happened.
func (f *FastPath) enter() bool {
	f.life.RLock()
	if f.over {
		f.life.RUnlock()
		return false
	}
	return true
}

func (f *FastPath) exit() { f.life.RUnlock() }

// Subscriber implements [media.Arena]. If many connections come at once it waits some 10 ms for memory.
func (f *FastPath) NewConn() *claim.ConnState {
	if !f.enter() {
		return nil
	}
	defer f.exit()
	defer f.reclaimer.provide()
	if i, ok := f.takeIndex(&f.ready); ok {
		return &f.states[i]
	}
	i, ok := f.takeIndex(&f.free)
	if !ok {
		return nil
	}
	if err := f.kernel.ledgers.lend(i); err != nil {
		f.report("provide memory", err)
		f.putIndices(&f.free, i)
		return nil
	}
	return &f.states[i]
}

// takeIndex takes the last index of a list, unless f is closed.
func (f *FastPath) takeIndex(from *[]uint32) (index uint32, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := len(*from) - 1
	if last < 0 || f.closed {
		return 0, false
	}
	index, *from = (*from)[last], (*from)[:last]
	return index, true
}

func (f *FastPath) putIndices(to *[]uint32, indices ...uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*to = append(*to, indices...)
}

// FreeSubscriber implements [media.Arena]. What was connected is freed when the connection is closed.
func (f *FastPath) FreeConn(*claim.ConnState) {}

// Ledger implements [media.Arena].
func (f *FastPath) Ledger(s *claim.ConnState, n int) []claim.Record {
	i, ok := indexOf(f.states, s)
	if !ok || n > claim.LedgerLen {
		return nil
	}
	return f.kernel.ledgers.of(uint32(i))
}

// Stream implements [media.Arena]: streams that begin with no publisher's stream are this process's alone.
func (f *FastPath) NewStream() *claim.StreamState { return nil }

// FreeStream implements [media.Arena].
func (f *FastPath) FreeStream(*claim.StreamState) {}

// indexOf returns the index of an element, if it is one.
func indexOf[T any](elements []T, p *T) (int, bool) {
	i := (uintptr(unsafe.Pointer(p)) - uintptr(unsafe.Pointer(unsafe.SliceData(elements)))) / unsafe.Sizeof(*p)
	return int(i), i < uintptr(len(elements))
}

// Connect implements [media.SecondSender].
func (f *FastPath) Connect(s *claim.ConnState, abandon func(*claim.StreamState)) claim.ForwarderConn {
	i, ok := indexOf(f.states, s)
	if !ok {
		panic("fastpath: Connect with a state that Subscriber did not return")
	}
	c := &conn{
		fast: f, index: uint32(i), abandon: abandon,
		ids: make(map[string]struct{}), read: make(map[uint64]struct{}), streams: make(map[bpf.DownstreamKey]uint32), keys: make(map[uint32]bpf.DownstreamKey),
	}
	f.mu.Lock()
	f.conns[i] = c
	f.mu.Unlock()
	return c
}

// conn returns the connection with an index, or nil if it has ended.
func (f *FastPath) conn(index uint32) *conn {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.conns[index]
}

// connections returns those that have not ended.
func (f *FastPath) connections() []*conn {
	f.mu.Lock()
	defer f.mu.Unlock()
	conns := make([]*conn, 0, len(f.conns))
	for _, c := range f.conns {
		if c != nil {
			conns = append(conns, c)
		}
	}
	return conns
}

// track returns the track with an index, or nil if that is closed.
func (f *FastPath) track(index uint32) *Track {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tracks[index]
}

func (f *FastPath) freeTrack(index uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.freeIndices = append(f.freeIndices, index)
}

// report logs what should not happen.
func (f *FastPath) report(what string, err error) {
	if err != nil {
		f.log.Error("fast path", "operation", what, "error", err)
	}
}

// abandonUnadopted resets a stream that the kernel has opened unless its owner has taken it over.
func (f *FastPath) abandonUnadopted(key bpf.DownstreamKey) {
	c := f.conn(key.Subscriber)
	if c == nil {
		return
	}
	slot, err := c.claimTheirs(key)
	if err != nil {
		return
	}
	state := &f.flows[slot]
	if !awaitOpened(state) {
		f.report("open a stream", fmt.Errorf("stream %d stays half open", key.StreamId))
		return
	}
	if state.ID.Load() == claim.NoStream {
		c.CloseStream(state)
	} else {
		c.abandon(state)
	}
}
