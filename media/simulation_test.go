package media

import (
	"container/heap"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"sluice/clock"
	"sluice/congestion"
	"sluice/internal/packet"
	"sluice/track"
)

// simulation is a path with delay, loss, reordering, duplication and a bottleneck between a sender and its peer, in
// fake time.
type simulation struct {
	*world
	rng                *rand.Rand
	cfg                simConfig
	events             eventQueue
	seq                int
	idle               clock.Time // when the bottleneck has sent all
	unacked            int
	ackDue             bool
	consumed           map[int64]int64
	arrived            int64
	done               int
	updates            int // of the keys
	dropped, delivered int
}

type simConfig struct {
	seed         uint64
	delay        time.Duration // one way
	jitter       time.Duration
	loss         float64
	ackLoss      float64
	duplicate    float64
	rate         int64 // bytes per second; 0: no bottleneck
	queue        int   // bytes of the bottleneck's queue
	connWindow   int64
	streamWindow int64
	streams      int64   // stream limit
	others       float64 // chance that quic-go sends a packet of its own
	keyUpdates   float64
}

type event struct {
	at  clock.Time
	seq int
	do  func()
}

type eventQueue []event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *eventQueue) Pop() any     { x := (*q)[len(*q)-1]; *q = (*q)[:len(*q)-1]; return x }

func newSimulation(t testing.TB, cfg simConfig, configure ...func(*worldConfig)) *simulation {
	sim := &simulation{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.seed, 1)), consumed: map[int64]int64{}}
	sim.world = newWorld(t, append([]func(*worldConfig){func(c *worldConfig) {
		if cfg.connWindow > 0 {
			c.params.MaxData = cfg.connWindow
		}
		if cfg.streamWindow > 0 {
			c.params.MaxStreamDataUni = cfg.streamWindow
		}
		if cfg.streams > 0 {
			c.params.MaxStreamsUni = cfg.streams
		}
	}}, configure...)...)
	return sim
}

func (m *simulation) after(d time.Duration, do func()) {
	m.seq++
	heap.Push(&m.events, event{m.clock.t.Add(d), m.seq, do})
}

// advance runs everything until the given time, or until nothing happens any more.
func (m *simulation) advance(limit time.Duration) {
	end := m.clock.t.Add(limit)
	for {
		m.transmit()
		next := m.shard.alarms.next()
		if len(m.events) > 0 {
			next = min(next, m.events[0].at)
		}
		if next > end {
			return
		}
		m.clock.t = max(m.clock.t, next)
		for len(m.events) > 0 && m.events[0].at <= m.clock.t {
			heap.Pop(&m.events).(event).do()
		}
	}
}

// transmit runs the sender and puts its packets on the path.
func (m *simulation) transmit() {
	if m.rng.Float64() < m.cfg.others {
		m.s.NextPacketNumber()
	}
	if m.rng.Float64() < m.cfg.keyUpdates {
		m.updateKeys()
	}
	m.stepped.Step()
	for _, p := range m.sock.packets {
		m.send(p)
	}
	m.sock.packets = nil
}

func (m *simulation) updateKeys() {
	m.updates++
	secret := fmt.Appendf(nil, "secret %25d", m.updates)
	m.s.Keys(m.peer.opener.Update(secret), m.peer.suite, packet.Version1, nil, secret)
}

func (m *simulation) send(p sentPacket) {
	q := m.peer.decrypt(p) // now, as keys might be updated until it arrives
	if m.rng.Float64() < m.cfg.loss {
		m.dropped++
		return
	}
	wait := time.Duration(0)
	if m.cfg.rate > 0 {
		m.idle = max(m.idle, m.clock.t)
		wait = m.idle.Sub(m.clock.t)
		if int(wait.Seconds()*float64(m.cfg.rate)) > m.cfg.queue {
			m.dropped++
			return
		}
		m.idle = m.idle.Add(time.Duration(int64(q.size) * int64(time.Second) / m.cfg.rate))
		wait = m.idle.Sub(m.clock.t)
	}
	copies := 1
	if m.rng.Float64() < m.cfg.duplicate {
		copies = 2
	}
	for range copies {
		m.after(wait+m.cfg.delay+m.random(m.cfg.jitter), func() { m.receive(q) })
	}
}

func (m *simulation) random(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return time.Duration(m.rng.Int64N(int64(limit)))
}

func (m *simulation) receive(q *wirePacket) {
	m.delivered++
	if !m.peer.received.contains(q.number, q.number+1) {
		m.peer.deliver(q)
		m.consume(q)
	}
	m.unacked++
	switch {
	case m.unacked >= 2:
		m.sendAck()
	case !m.ackDue:
		m.ackDue = true
		m.after(25*time.Millisecond, func() {
			if m.ackDue {
				m.sendAck()
			}
		})
	}
}

// consume reads what has arrived, as an application without delay would, and sends more credit.
func (m *simulation) consume(q *wirePacket) {
	if q.frame&^7 != packet.FrameStream && q.frame != packet.FrameResetStream {
		return
	}
	id := q.id
	if q.frame == packet.FrameResetStream {
		id = int64(q.fields[0])
	}
	st := m.peer.stream(id)
	have := int64(0)
	for _, h := range st.have {
		have += h.to - h.from
	}
	if st.reset {
		have = st.final
	}
	m.arrived += have - m.consumed[id]
	m.consumed[id] = have
	arrived, delay := m.arrived, m.cfg.delay+m.random(m.cfg.jitter)
	complete := st.final == have
	if complete {
		m.done++
	}
	done := m.done
	m.after(delay, func() {
		if m.cfg.connWindow > 0 {
			m.s.MaxData(arrived + m.cfg.connWindow)
		}
		if m.cfg.streamWindow > 0 {
			m.s.MaxStreamData(id, have+m.cfg.streamWindow)
		}
		if m.cfg.streams > 0 && complete {
			m.s.MaxStreams(int64(done) + m.cfg.streams)
		}
	})
}

func (m *simulation) sendAck() {
	m.unacked, m.ackDue = 0, false
	ranges := m.peer.ranges()
	if len(ranges) > 32 { // as implementations limit them
		ranges = ranges[:32]
	}
	if m.rng.Float64() < m.cfg.ackLoss {
		return
	}
	m.after(m.cfg.delay+m.random(m.cfg.jitter), func() {
		_, err := m.s.Acked(&quic.AckInfo{Ranges: ranges, Received: m.clock.Wall()})
		require.NoError(m.t, err)
	})
}

func TestSimulatedPaths(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 3
	}
	for name, cfg := range map[string]simConfig{
		"clean":         {delay: 10 * time.Millisecond},
		"loss":          {delay: 10 * time.Millisecond, loss: 0.1, ackLoss: 0.1},
		"heavy loss":    {delay: 5 * time.Millisecond, loss: 0.4, ackLoss: 0.3},
		"reordering":    {delay: 5 * time.Millisecond, jitter: 10 * time.Millisecond, loss: 0.02},
		"duplication":   {delay: 5 * time.Millisecond, jitter: 5 * time.Millisecond, duplicate: 0.3, loss: 0.05},
		"bottleneck":    {delay: 20 * time.Millisecond, rate: 500_000, queue: 20_000},
		"conn window":   {delay: 5 * time.Millisecond, connWindow: 2000, loss: 0.05},
		"stream window": {delay: 5 * time.Millisecond, streamWindow: 1000, loss: 0.05},
		"tiny windows":  {delay: 2 * time.Millisecond, streamWindow: 7, connWindow: 11, loss: 0.02},
		"one stream":    {delay: 5 * time.Millisecond, streams: 1, loss: 0.05},
		"other packets": {delay: 5 * time.Millisecond, others: 0.5, loss: 0.05},
		"key updates":   {delay: 5 * time.Millisecond, keyUpdates: 0.02, loss: 0.05, jitter: 3 * time.Millisecond},
		"all": {
			delay: 15 * time.Millisecond, jitter: 10 * time.Millisecond, loss: 0.03, ackLoss: 0.03, duplicate: 0.02,
			rate: 2_000_000, queue: 50_000, connWindow: 60_000, streamWindow: 20_000, streams: 3, others: 0.2,
			keyUpdates: 0.01,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range seeds {
				cfg.seed = seed
				simulateStreams(t, cfg, congestion.NewCubic)
			}
			for seed := range (seeds + 4) / 5 {
				cfg.seed = seed
				simulateStreams(t, cfg, congestion.NewBBR)
			}
		})
	}
}

// simulateStreams sends streams of random lengths, and checks every byte.
func simulateStreams(t *testing.T, cfg simConfig, controller func(mtu int) congestion.Controller) {
	m := newSimulation(t, cfg, func(c *worldConfig) {
		c.sender.AckTimeout = -1 // heavy losses take longer
		c.sender.NewController = controller
	})
	size := 40_000
	if cfg.connWindow > 0 && cfg.connWindow < 100 {
		size = 300
	}
	type expected struct {
		log     *track.Log
		results func() []Result
		sum     [32]byte
	}
	var all []expected
	subs := []*Subscription{
		m.subscribe(), m.subscribe(func(c *SubscriptionConfig) { c.Priority, c.Descending = 10, true }),
	}
	for i := range 12 {
		start := int64(m.rng.IntN(100))
		n := m.rng.IntN(size)
		want := append([]byte("prefix"), testBytes(start, n)...)
		e := expected{log: track.NewLog(start, nil), sum: sha256.Sum256(want)}
		_, e.results = m.stream(subs[i%2], e.log, func(c *StreamConfig) {
			c.Group, c.Priority = uint64(i/2), uint8(m.rng.IntN(3))
			c.Prefix = []byte("prefix")
		})
		all = append(all, e)
		m.feed(e.log, start, n)
	}
	m.advance(10 * time.Minute)
	sums := map[[32]byte]int{}
	for id := range m.peer.streams {
		sums[sha256.Sum256(m.peer.bytes(id))]++
	}
	for i, e := range all {
		require.Len(t, e.results(), 1, "seed %d stream %d", cfg.seed, i)
		require.Equal(t, Delivered, e.results()[0].Outcome)
		sums[e.sum]--
		require.False(t, e.log.Pinned())
	}
	for _, n := range sums {
		require.Zero(t, n)
	}
	st := m.s.Stats()
	require.Zero(t, st.InFlight)
	require.Zero(t, st.Open)
	require.Equal(t, uint64(12), st.Streams)
	require.Equal(t, clock.Never, m.shard.alarms.next())
	require.LessOrEqual(t, m.s.state.DataSent.Load(), m.s.state.DataLimit.Load())
}

// feed appends to a log piece by piece.
func (m *simulation) feed(l *track.Log, start int64, n int) {
	if n == 0 {
		l.Finish()
		return
	}
	k := min(1+m.rng.IntN(5000), n)
	l.Append(testBytes(start, k))
	m.after(m.random(3*time.Millisecond), func() { m.feed(l, start+int64(k), n-k) })
}
