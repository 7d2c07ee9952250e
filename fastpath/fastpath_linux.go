package fastpath

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/internal/delay"
	"sluice/internal/logs"
)

// FastPath is the kernel as the forwarder of a media loop.
type FastPath struct {
	kernel     *kernel
	log        *logs.Sparse
	debug      *slog.Logger // gets all
	conns      *connections
	tracks     *pool[ForwardedTrack]
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
		kernel: k, log: logs.NewSparse(logger), debug: logger,
		states: cast[claim.ConnState](k.conns), streams: cast[claim.StreamState](k.streams),
		maxSubscribers: cmp.Or(s.MaxCopies, DefaultMaxCopies),
	}
	k.report = f.report
	f.conns = &connections{pool: pool[conn]{of: "connections", arrays: k.byConn, most: k.maxConns, report: f.report}}
	f.tracks = &pool[ForwardedTrack]{of: "tracks", arrays: k.byTrack, most: k.maxTracks, report: f.report}
	f.conns.add()
	f.tracks.add()
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

// ThreadsCopies is how many copies threads of this process have made, at most: the workers of RTP.
func (f *FastPath) ThreadsCopies() (n uint64) {
	for _, p := range f.kernel.protocols {
		n += p.copies()
	}
	return n
}

var errClosed = errors.New("fast path: closed")

// Close detaches the programs. The loop must be closed before.
func (f *FastPath) Close() error {
	f.conns.close()
	f.tracks.close()
	for _, c := range f.conns.list() {
		c.Close()
	}
	f.reclaimer.close()
	f.life.Lock()
	f.over = true
	f.life.Unlock()
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

// takeConn takes an index of a connection, with a ledger.
func (f *FastPath) takeConn() (index uint32, ok bool) {
	for {
		if index, ok = f.conns.take(&f.conns.ready); ok {
			return index, true
		}
		if index, ok = f.conns.take(&f.conns.free); ok {
			break
		}
		if !f.conns.provide(1) {
			const message = "the fast path has no place for more connections: user space serves them"
			f.log.Log(slog.LevelWarn, message, message, "places", len(f.states), "flag", "--fastpath-connections")
			return 0, false
		}
	}
	err := f.kernel.ledgers.lend(index)
	if err != nil {
		f.report("provide memory", err)
		f.conns.put(&f.conns.free, index)
	}
	return index, err == nil
}

// indexOf returns the index of the element that p points to, if it points to one.
func indexOf[T any](elements []T, p *T) (int, bool) {
	i := (uintptr(unsafe.Pointer(p)) - uintptr(unsafe.Pointer(unsafe.SliceData(elements)))) / unsafe.Sizeof(*p)
	return int(i), i < uintptr(len(elements))
}

// Connect implements [claim.Forwarder]. If many connections come at once it waits some 10 ms for memory.
func (f *FastPath) Connect(abandon func(*claim.StreamState)) (claim.ForwarderConn, *claim.ConnState) {
	if !f.enter() {
		return nil, nil
	}
	defer f.exit()
	defer f.reclaimer.provide()
	index, ok := f.takeConn()
	if !ok {
		return nil, nil
	}
	return f.connect(index, abandon), &f.states[index]
}

func (f *FastPath) connect(index uint32, abandon func(*claim.StreamState)) *conn {
	c := &conn{fast: f, index: index, abandon: abandon, since: monotonic(), ids: make(map[string]struct{})}
	c.subscribing = subscribing{
		conn: c, slots: make(map[bpf.DownstreamKey]uint32), keys: make(map[uint32]bpf.DownstreamKey),
	}
	c.publishing.conn, c.read, c.awaited = c, make(map[uint64]struct{}), make(map[uint64]chan struct{})
	c.sealing.index, c.opening.index = ringsOf(c.index)
	c.received.Store(-1)
	c.prepareAt.Store(never)
	f.conns.set(c.index, c)
	return c
}

// report logs an error that should not happen. If a peer has found a way to cause it, the log does not grow without
// bounds.
func (f *FastPath) report(operation string, err error) {
	if err != nil {
		f.log.Log(slog.LevelError, operation, "fast path", "operation", operation, "err", err)
	}
}

// Counts returns how often the programs counted each reason, by name.
func (f *FastPath) Counts() (map[string]uint64, error) {
	if !f.enter() {
		return nil, errClosed
	}
	defer f.exit()
	return f.kernel.Counts()
}

// Copies returns the number of copies for a subscriber, by reason: "sent", "window" and so on, the names of Counts that
// begin with copy_. It is nil if the fast path does not serve the connection.
func (f *FastPath) Copies(to claim.ForwarderConn) map[string]uint64 {
	c, _ := to.(*conn)
	if c == nil || !f.enter() {
		return nil
	}
	defer f.exit()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.copies
	}
	return f.kernel.Copies(c.index)
}

// Measure has the programs measure how long packets stay in the relay until their copies leave, or ends that.
func (f *FastPath) Measure(on bool) {
	if !f.enter() {
		return
	}
	defer f.exit()
	atomic.StoreUint64(&f.kernel.measuring[0], flag[uint64](on))
}

// Delays returns the delays that were measured: from when a publisher's packet came to the program at the device until
// a copy was handed to the subscriber's device.
func (f *FastPath) Delays() (h delay.Histogram, err error) {
	if !f.enter() {
		return h, errClosed
	}
	defer f.exit()
	var perCPU []bpf.DelayCounts
	if err := f.kernel.ingress.Delays.Lookup(uint32(0), &perCPU); err != nil {
		return h, fmt.Errorf("fast path: read the delays: %w", err)
	}
	for _, d := range perCPU {
		h.Add(&delay.Histogram{Sum: time.Duration(d.Sum), Bins: d.Bins})
	}
	return h, nil
}

// NewRTPMedia has the kernel look for the packets of a media. It waits some 10 ms.
func (f *FastPath) NewRTPMedia(s RTPSource) (*RTPMedia, error) {
	if !f.enter() {
		return nil, errClosed
	}
	defer f.exit()
	r, ok := protocolOf[*rtp](f.kernel)
	if !ok {
		return nil, errNoRTP
	}
	if err := checkFamilies(s.Local, s.Remote); err != nil {
		return nil, err
	}
	index, share, err := r.take(sourceOf(s.Remote.Addr()))
	if err != nil {
		return nil, err
	}
	m := &RTPMedia{fast: f, rtp: r, source: s, index: index, owners: make(map[int]netip.Prefix)}
	if err := r.medias.lend(index); err != nil {
		r.give(sourceOf(s.Remote.Addr()), index)
		return nil, err
	}
	m.shared = &r.medias.of(index)[0]
	m.shared.Index, m.shared.Share = index, uint16(share)
	m.shared.Udp = bpf.RTPUdpPath(udpPath(s.Local, s.Remote))
	m.shared.PayloadType = uint32(s.PayloadType)
	m.shared.Codec = uint32(s.Codec)
	if err := r.objects.RtpSources.Update(m.key(), index, ebpf.UpdateNoExist); err != nil {
		m.shared = nil
		err = fmt.Errorf("fast path: two medias come from %v: %w", s.Remote, err)
		return nil, errors.Join(err, m.giveBack())
	}
	return m, nil
}

// NewTrack returns a track that is not on the fast path yet, or nil if there is no room for another one. It must be
// closed.
func (f *FastPath) NewTrack() *ForwardedTrack {
	if f == nil || !f.enter() {
		return nil
	}
	defer f.exit()
	t := &ForwardedTrack{fast: f, listed: make(map[uint32]struct{})}
	for {
		var ok bool
		if t.index, ok = f.tracks.take(&f.tracks.free); ok {
			f.tracks.set(t.index, t)
		}
		if free, _, _ := f.tracks.count(); free < spare {
			f.reclaimer.provide()
		}
		if ok {
			return t
		}
		if !f.tracks.provide(1) {
			return nil
		}
	}
}

// newStream takes a free slot for a stream and publishes it. The error is [ebpf.ErrKeyExist] if the kernel was faster.
func (f *FastPath) newStream(key bpf.DownstreamKey) (slot uint32, err error) {
	maps := &f.kernel.tables
	if err := maps.FreeStreams.LookupAndDelete(nil, &slot); err != nil {
		return 0, err
	}
	f.streams[slot].Phase.Store(opening)
	if err := maps.Downstreams.Update(key, slot, ebpf.UpdateNoExist); err != nil {
		f.report("free a stream", maps.FreeStreams.Update(nil, slot, ebpf.UpdateAny)) // it was never published
		return 0, err
	}
	return slot, nil
}

// freeSlot frees a slot that is in no map any more.
func (f *FastPath) freeSlot(slot uint32) {
	f.reclaimer.afterRuns(func() {
		f.report("free a stream", f.kernel.tables.FreeStreams.Update(nil, slot, ebpf.UpdateAny))
	})
}

// abandonUnadopted resets a stream that the kernel has opened, unless the media sender has it.
func (f *FastPath) abandonUnadopted(key bpf.DownstreamKey) {
	c := f.conns.get(key.Subscriber)
	if c == nil {
		return
	}
	c.mu.Lock()
	slot, err := c.takeOpenedLocked(key)
	c.mu.Unlock()
	if err != nil {
		return
	}
	if state := &f.streams[slot]; c.awaitOpened(state) {
		c.discard(state)
	} else {
		c.abandonLate(slot)
	}
}
