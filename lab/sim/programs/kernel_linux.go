package programs

import (
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"sluice/claim"
	"sluice/clock"
	"sluice/fastpath"
	"sluice/fastpath/bpf"
	"sluice/transport"
)

// Habits are what a kernel and its machine may do.
type Habits struct {
	Late    float64 // the share of runs that are late, at one or two of their steps
	Opening float64 // the share of streams with whose opening a run is late
	Early   float64 // the share of streams before whose opening a run is late
	Twice   float64 // the share of packets that come to both processors
	Wander  float64 // the share of packets that another processor gets than those before
	Refuse  float64 // the share of copies that the device does not take
	Lose    float64 // the share of packets with media that the socket has no room for behind the program
	Budget  int     // copies that a run may make
	Slots   int     // streams that there is memory for
}

// NewHabits chooses habits.
func NewHabits(rng *rand.Rand) Habits {
	h := Habits{Budget: 1 + rng.IntN(8), Slots: 480}
	if rng.IntN(4) > 0 {
		h.Late = 0.001 * math.Pow(100, rng.Float64())
	}
	if rng.IntN(2) == 0 {
		h.Wander = 0.05 * rng.Float64()
	}
	if rng.IntN(2) == 0 {
		h.Opening, h.Twice = 0.3*rng.Float64(), 0.1*rng.Float64()
	}
	if rng.IntN(3) == 0 {
		h.Refuse = 0.02 * rng.Float64()
	}
	if rng.IntN(6) == 0 {
		h.Slots = 4
	}
	if rng.IntN(3) == 0 {
		h.Lose = 0.2 * rng.Float64()
	}
	return h
}

const (
	processors = 2
	backlog    = 512 // packets that wait for a processor; more are lost
	maxConns   = 48
	maxTracks  = 64
	maxEntries = 500 // of a table: less than a batch of fastpath's
)

// Kernel is the kernel of one relay's host.
type Kernel struct {
	habits  Habits
	send    func(to netip.AddrPort, b []byte)
	clock   clock.Clock
	machine fastpath.Machine
	reasons *counters
	queues  [processors]chan arrival
	closed  chan struct{}
	done    sync.WaitGroup
	ledgers [maxConns]claim.Ledger

	ids         *table[bpf.ConnectionID, uint32]
	aliases     *table[bpf.AliasKey, uint32]
	downstreams *table[bpf.DownstreamKey, uint32]
	ended       *table[bpf.StreamKey, uint32]
	first       *table[bpf.SubgroupKey, uint64]
	subgroups   *table[bpf.StreamKey, bpf.Subgroup]
	objects     *table[bpf.ObjectKey, bpf.ObjectClaim]
	paths       *table[bpf.VersionKey, bpf.Path]
	tracks      *table[bpf.VersionKey, bpf.Track]
	free        stack

	mu        sync.Mutex // guards all below
	rng       *rand.Rand
	neighbors map[netip.AddrPort]bool // to which the stack has sent
	runs      map[*run]struct{}
	waits     []wait
	hurry     chan struct{} // closed while late runs have to go on
	hurried   int           // who wants that
}

// wait is when a run was late.
type wait struct{ from, to time.Time }

// arrival is a packet that has come to a device, and how the socket gets it.
type arrival struct {
	from netip.AddrPort
	data []byte
	pass func()
}

// New returns a kernel. send sends a packet from the relay's address and port.
func New(seed uint64, h Habits, send func(to netip.AddrPort, b []byte)) *Kernel {
	k := &Kernel{
		habits: h, send: send, clock: clock.NewSystem(), closed: make(chan struct{}),
		reasons: new(counters), free: newStack(h.Slots),
		ids:         newTable[bpf.ConnectionID, uint32](maxEntries),
		aliases:     newTable[bpf.AliasKey, uint32](maxEntries),
		downstreams: newTable[bpf.DownstreamKey, uint32](maxEntries),
		ended:       newTable[bpf.StreamKey, uint32](maxEntries),
		first:       newTable[bpf.SubgroupKey, uint64](maxEntries),
		subgroups:   newTable[bpf.StreamKey, bpf.Subgroup](maxEntries),
		objects:     newTable[bpf.ObjectKey, bpf.ObjectClaim](maxEntries),
		paths:       newTable[bpf.VersionKey, bpf.Path](math.MaxInt),
		tracks:      newTable[bpf.VersionKey, bpf.Track](math.MaxInt),
		rng:         rand.New(rand.NewPCG(seed, 3)),
		neighbors:   make(map[netip.AddrPort]bool), runs: make(map[*run]struct{}), hurry: make(chan struct{}),
	}
	k.machine = fastpath.Machine{
		Tables: fastpath.Tables{
			Aliases: k.aliases, ConnectionIds: k.ids, Downstreams: k.downstreams, Ended: k.ended, FirstStreams: k.first,
			FreeStreams: k.free, Objects: k.objects, Reasons: k.reasons, Subgroups: k.subgroups,
		},
		Paths: k.paths, Tracks: k.tracks,
		PathVersions: make([]uint64, maxConns), TrackVersions: make([]uint64, maxTracks),
		Conns: make([]claim.ConnState, maxConns), Streams: make([]claim.StreamState, h.Slots),
		Keys: make([]bpf.SendKeys, maxConns), Copies: make([]bpf.CopyCounts, maxConns),
		Publishers: make([]bpf.Publisher, maxConns), HeldByEach: make([]bpf.Held, maxConns),
		HeldByAll: make([]bpf.Held, 1), MaxSubgroups: maxEntries, MaxObjects: maxEntries, Ledger: k.ledger,
		KeyStreams:  func(uint32) []bpf.KeyStream { return make([]bpf.KeyStream, bpf.IngressLookaheadLOOKAHEAD) },
		AwaitUnused: k.awaitUnused, Spin: k.spin, Close: k.close,
	}
	for i := range k.queues {
		k.queues[i] = make(chan arrival, backlog)
		k.done.Go(func() { k.process(k.queues[i]) })
	}
	return k
}

// Open makes the fast path whose programs run here: see server.FastPathConfig.
func (k *Kernel) Open(_ *net.UDPAddr, log *slog.Logger) (*fastpath.FastPath, error) {
	return fastpath.Simulate(&k.machine, fastpath.Settings{
		ConnectionIDLen: transport.ConnectionIDLength, MaxCopies: k.habits.Budget,
	}, log)
}

// ledger returns the memory of a connection's ledger. Programs find it as long as there is a kernel.
func (k *Kernel) ledger(connection uint32) []claim.Record {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ledgers[connection] == nil {
		k.ledgers[connection] = make(claim.Ledger, claim.LedgerLen)
	}
	return k.ledgers[connection]
}

func (k *Kernel) ledgerOf(connection uint32) claim.Ledger {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ledgers[connection]
}

func (k *Kernel) count(reason bpf.Reason) { k.reasons.of[reason].Add(1) }

// Used returns how many streams have memory.
func (k *Kernel) Used() int { return k.habits.Slots - k.free.len() }

// Sent notes that the stack has sent a packet.
func (k *Kernel) Sent(to netip.AddrPort) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.neighbors[to] = true
}

// Receive takes a packet that has come to the device. pass gives it to the socket.
func (k *Kernel) Receive(from netip.AddrPort, b []byte, pass func()) {
	at := from.Port() + uint16(from.Addr().As4()[3])
	if k.chance(k.habits.Wander) {
		at++
	}
	select {
	case <-k.closed:
		pass()
		return
	default:
	}
	k.enqueue(at%processors, arrival{from, b, pass})
	if k.chance(k.habits.Twice) {
		k.enqueue((at+1)%processors, arrival{from, b, pass})
	}
}

// enqueue gives a packet to a processor, or loses it.
func (k *Kernel) enqueue(processor uint16, a arrival) {
	select {
	case k.queues[processor] <- a:
	default:
	}
}

// process is a processor.
func (k *Kernel) process(packets <-chan arrival) {
	for {
		select {
		case <-k.closed:
			return
		case a := <-packets:
			if why := k.run(&a); why != bpf.IngressReasonPACKET_OPENED || !k.chance(k.habits.Lose) {
				a.pass()
			}
		}
	}
}

// run runs server_ingress on a packet, and returns what became of that.
func (k *Kernel) run(a *arrival) bpf.Reason {
	r := k.begin()
	defer k.end(r)
	why := r.takePacket(a)
	k.count(why)
	return why
}

func (k *Kernel) close() {
	close(k.closed)
	k.rush()
	k.done.Wait()
}

// run is one run of a program.
type run struct {
	*Kernel
	late  []int // steps at which it is late
	steps int   // that it has made
	over  chan struct{}

	budget int // work that the run may still do
}

// lateSteps is among how many steps a late run chooses. Most of them are in the copies.
const lateSteps = 40

func (k *Kernel) begin() *run {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := &run{Kernel: k, over: make(chan struct{})}
	if k.rng.Float64() < k.habits.Late {
		r.late = append(r.late, k.rng.IntN(lateSteps))
		if k.rng.IntN(3) == 0 {
			r.late = append(r.late, k.rng.IntN(lateSteps))
		}
	}
	k.runs[r] = struct{}{}
	return r
}

func (k *Kernel) end(r *run) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.runs, r)
	close(r.over)
}

// step is between two steps of a run, where user space and the other processor may act.
func (r *run) step() {
	if r.steps++; len(r.late) == 0 {
		return
	}
	for _, at := range r.late {
		if at == r.steps {
			r.wait()
		}
	}
}

// wait takes between 10 µs and 1 s: a virtual machine's processors do not run for a while.
func (r *run) wait() {
	r.mu.Lock()
	d := time.Duration(math.Pow(10, 5*r.rng.Float64()) * float64(10*time.Microsecond))
	hurry := r.hurry
	r.mu.Unlock()
	begin, timer := time.Now(), time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-hurry:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waits = append(r.waits, wait{begin, time.Now()})
}

// Late returns for how long between two times runs were late. What came then may have waited for a processor.
func (k *Kernel) Late(from, to time.Time) (sum time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	slices.SortFunc(k.waits, func(a, b wait) int { return a.from.Compare(b.from) })
	for _, w := range k.waits {
		if w.from.After(from) {
			from = w.from
		}
		if w.to.After(to) {
			w.to = to
		}
		if w.to.After(from) {
			sum += w.to.Sub(from)
			from = w.to
		}
	}
	return sum
}

// rush has late runs go on, and waits until all have ended.
func (k *Kernel) rush() {
	k.mu.Lock()
	if k.hurried++; k.hurried == 1 {
		close(k.hurry)
	}
	k.mu.Unlock()
	k.awaitUnused()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hurried--; k.hurried == 0 {
		k.hurry = make(chan struct{})
	}
}

// awaitUnused returns when all runs that have begun before have ended.
func (k *Kernel) awaitUnused() {
	k.mu.Lock()
	var runs []*run
	for r := range k.runs {
		runs = append(runs, r)
	}
	k.mu.Unlock()
	for _, r := range runs {
		<-r.over
	}
}

// spin waits for a run, or a second: then it returns false. No time passes in either case, because the caller may hold
// locks, for which others wait: time would stand still.
func (k *Kernel) spin(done func() bool) bool {
	if done() {
		return true
	}
	if k.chance(0.4) {
		return false
	}
	k.rush()
	return done()
}

func (k *Kernel) chance(p float64) bool {
	if p == 0 {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rng.Float64() < p
}
