package congestion

import (
	"container/heap"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"sluice/clock"
)

// network is a bottleneck with a queue that flows share, in virtual time. It is deterministic.
type network struct {
	cfg    networkConfig
	now    clock.Time
	rng    *rand.Rand
	events networkEvents
	seq    int
	idle   clock.Time // when the bottleneck's queue is empty
	flows  []*flow
}

type networkConfig struct {
	rate   float64 // bytes per second
	delay  time.Duration
	jitter time.Duration // of ACKs
	queue  int           // bytes
	loss   float64
	gather time.Duration // ACKs arrive at multiples of that
	mark   int           // packets that find so many bytes in the queue are marked; 0: none is
}

type networkEvent struct {
	at  clock.Time
	seq int
	do  func()
}

type networkEvents []networkEvent

func (q networkEvents) Len() int { return len(q) }
func (q networkEvents) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q networkEvents) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *networkEvents) Push(x any)   { *q = append(*q, x.(networkEvent)) }
func (q *networkEvents) Pop() any {
	x := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return x
}

func newNetwork(cfg networkConfig) *network {
	return &network{cfg: cfg, now: clock.Time(time.Hour), rng: rand.New(rand.NewPCG(1, 2))}
}

func (n *network) after(d time.Duration, do func()) {
	n.seq++
	heap.Push(&n.events, networkEvent{n.now.Add(d), n.seq, do})
}

// run runs for a time.
func (n *network) run(d time.Duration) {
	end := n.now.Add(d)
	for len(n.events) > 0 && n.events[0].at <= end {
		e := heap.Pop(&n.events).(networkEvent)
		n.now = e.at
		e.do()
	}
	n.now = end
}

// transmit returns when a packet arrives, and whether it is marked as congested, unless it is lost.
func (n *network) transmit(size int) (at time.Duration, marked, arrives bool) {
	n.idle = max(n.idle, n.now)
	queued := n.idle.Sub(n.now).Seconds() * n.cfg.rate
	if int(queued)+size > n.cfg.queue || n.rng.Float64() < n.cfg.loss {
		return 0, false, false
	}
	n.idle = n.idle.Add(time.Duration(float64(size) / n.cfg.rate * float64(time.Second)))
	return n.idle.Sub(n.now) + n.cfg.delay, n.cfg.mark > 0 && int(queued) > n.cfg.mark, true
}

// ackDelay returns how long an ACK takes.
func (n *network) ackDelay() time.Duration {
	d := n.cfg.delay
	if n.cfg.jitter > 0 {
		d += time.Duration(n.rng.Int64N(int64(n.cfg.jitter)))
	}
	if g := n.cfg.gather; g > 0 {
		d = n.now.Add(d+g-1).Sub(0) / g * g
		d -= n.now.Sub(0)
	}
	return d
}

const packetSize = 1200

// flow is a sender with a controller, its receiver, and the data of an application.
type flow struct {
	*network
	controller Controller
	pacer      Pacer
	full       atomic.Uint64
	rtt        RTT
	packets    []simPacket // by number
	low        int         // packets below it are acknowledged or lost
	largest    int         // acknowledged
	reordering int         // packet threshold
	inFlight   int
	waiting    int // bytes to send
	limitedTo  int
	since      clock.Time
	timer      bool
	bulk       bool
	received   []bool
	unacked    []int
	ackDue     bool

	frames    []simFrame      // that are not complete
	delays    []time.Duration // of frames
	delivered int             // bytes
	lost      int
	queueSum  time.Duration // of RTT beyond the lowest
	acks      int
}

type simPacket struct {
	marked bool
	sent   clock.Time
	state  uint8 // 0 in flight, 1 acknowledged, 2 lost
	size   int
}

// simFrame is complete when the receiver has that many bytes.
type simFrame struct {
	end int
	at  clock.Time
}

func (n *network) flow(c Controller) *flow {
	f := &flow{network: n, controller: c, largest: -1, reordering: 3}
	n.flows = append(n.flows, f)
	return f
}

// bulkFrom sends as much as it may after a while.
func (f *flow) bulkFrom(d time.Duration) *flow {
	f.after(d, func() { f.bulk = true; f.send() })
	return f
}

// video sends frames: each tenth is a key frame of six times the size.
func (f *flow) video(rate float64, perSecond int) *flow {
	size := rate / float64(perSecond) / 1.5
	frame, total := 0, 0
	var next func()
	next = func() {
		n := int(size)
		if frame%10 == 0 {
			n *= 6
		}
		frame++
		total += n
		f.waiting += n
		f.frames = append(f.frames, simFrame{total, f.now})
		f.send()
		f.after(time.Second/time.Duration(perSecond), next)
	}
	f.after(0, next)
	return f
}

func (f *flow) send() {
	p := PacerOf(f.controller, f.rtt.Smoothed, packetSize)
	f.pacer.Refill(&f.full, f.now, p)
	f.pacer = p
	for f.bulk || f.waiting > 0 {
		size := packetSize
		if !f.bulk {
			size = min(size, f.waiting)
		}
		blockedByWindow := f.inFlight+packetSize > f.controller.Window()
		if blockedByWindow || !f.pacer.Ready(&f.full, f.now) {
			f.limitedTo = len(f.packets)
			if f.since == 0 {
				f.since = f.now
			}
			if !blockedByWindow {
				f.wake(f.pacer.Next(&f.full, packetSize).Sub(f.now))
			}
			return
		}
		f.transmitOne(size)
	}
	f.since = 0
}

func (f *flow) wake(d time.Duration) {
	if !f.timer {
		f.timer = true
		f.after(d, func() { f.timer = false; f.send() })
	}
}

func (f *flow) transmitOne(size int) {
	number := len(f.packets)
	f.waiting = max(f.waiting-size, 0)
	f.packets = append(f.packets, simPacket{sent: f.now, size: size})
	f.received = append(f.received, false)
	f.inFlight += size
	f.pacer.Spend(&f.full, f.now, size)
	if at, marked, ok := f.transmit(size); ok {
		f.packets[number].marked = marked
		f.after(at, func() { f.receive(number) })
	}
	f.after(f.rtt.PTO(25*time.Millisecond), func() { f.timeout(number) })
}

func (f *flow) receive(number int) {
	f.received[number] = true
	f.delivered += f.packets[number].size
	for len(f.frames) > 0 && f.frames[0].end <= f.delivered {
		f.delays = append(f.delays, f.now.Sub(f.frames[0].at))
		f.frames = f.frames[1:]
	}
	f.unacked = append(f.unacked, number)
	switch {
	case len(f.unacked) >= 2:
		f.sendAck()
	case !f.ackDue:
		f.ackDue = true
		f.after(25*time.Millisecond, func() {
			if f.ackDue {
				f.sendAck()
			}
		})
	}
}

func (f *flow) sendAck() {
	numbers := f.unacked
	f.unacked, f.ackDue = nil, false
	f.after(f.ackDelay(), func() { f.acked(numbers) })
}

func (f *flow) acked(numbers []int) {
	e := AckEvent{Now: f.now, InFlight: f.inFlight}
	newest := -1
	for _, n := range numbers {
		p := &f.packets[n]
		if p.state == 2 {
			f.controller.Spurious(p.sent)
			f.reordering = max(f.reordering, f.largest-n+1)
		}
		if p.state != 0 {
			continue
		}
		p.state = 1
		f.inFlight -= p.size
		e.Bytes += p.size
		e.Packets++
		if p.marked {
			e.CE++
		}
		if e.First == 0 || p.sent < e.First {
			e.First = p.sent
		}
		e.Sent = max(e.Sent, p.sent)
		newest = max(newest, n)
	}
	if newest < 0 {
		return
	}
	if newest > f.largest {
		f.largest = newest
		f.rtt.Update(f.now, f.now.Sub(e.Sent), 0)
		f.queueSum += f.rtt.Latest - 2*f.cfg.delay
		f.acks++
	}
	e.LatestRTT, e.SRTT, e.MinRTT = f.rtt.Latest, f.rtt.Smoothed, f.rtt.Min
	e.AppLimited, e.LimitedSince = newest >= f.limitedTo, f.since
	f.controller.Acked(e)
	f.detectLost(f.largest)
	f.send()
}

// detectLost finds lost packets; their data is sent again.
func (f *flow) detectLost(largest int) {
	e := LossEvent{Now: f.now, InFlight: f.inFlight}
	delay := f.rtt.LossDelay()
	for n := f.low; n < largest; n++ {
		p := &f.packets[n]
		if p.state == 0 && (n+f.reordering <= largest || p.sent.Add(delay) <= f.now) {
			f.lose(p, &e)
		}
	}
	f.report(e)
}

// timeout declares everything up to a packet lost that was not acknowledged in time.
func (f *flow) timeout(number int) {
	e := LossEvent{Now: f.now, InFlight: f.inFlight}
	for n := f.low; n <= number; n++ {
		if p := &f.packets[n]; p.state == 0 && p.sent.Add(2*f.rtt.PTO(25*time.Millisecond)) <= f.now {
			f.lose(p, &e)
		}
	}
	f.report(e)
	if f.packets[number].state == 0 {
		f.after(f.rtt.PTO(25*time.Millisecond), func() { f.timeout(number) })
	}
	f.send()
}

func (f *flow) lose(p *simPacket, e *LossEvent) {
	p.state = 2
	f.inFlight -= p.size
	f.waiting += p.size
	f.lost += p.size
	e.Packets++
	e.Bytes += p.size
	e.Sent = max(e.Sent, p.sent)
}

func (f *flow) report(e LossEvent) {
	for f.low < len(f.packets) && f.packets[f.low].state != 0 {
		f.low++
	}
	if e.Packets > 0 {
		f.controller.Lost(e)
	}
}

// rate returns the bytes per second that arrive in the next while.
func (f *flow) rate(d time.Duration) float64 {
	before := f.delivered
	f.run(d)
	return float64(f.delivered-before) / d.Seconds()
}
