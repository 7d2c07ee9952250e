package replay

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sort"
	"time"

	"github.com/quic-go/quic-go"

	"sluice/claim"
	"sluice/clock"
	"sluice/congestion"
	"sluice/internal/packet"
	"sluice/internal/udp"
	"sluice/lab/bench/playback"
	"sluice/media"
	"sluice/moqt"
	"sluice/track"
)

// simulation is a media sender, the path and a subscriber, in the time of the simulation.
type simulation struct {
	trace    *Trace
	clock    *virtualClock
	events   []event // in the order in which they happen
	path     path
	loop     media.Stepped
	sender   media.Hooks
	tracks   []subscription
	receiver *receiver
	ladder   *ladder // nil if there is one rendition

	streams int64 // of the publisher, so far
	sent    int   // packets
	failure error // the first
}

// subscription is a track's, and the subgroups of its last group.
type subscription struct {
	*media.Subscription
	from, until uint64 // the groups that are sent: from <= group < until
	group       uint64
	open        map[uint64]*subgroup
	ended       bool // the sender has ended the subscription
}

// everyGroup is the end of a subscription without one.
const everyGroup = math.MaxUint64

// subgroup is a stream of the publisher.
type subgroup struct {
	number  int64  // id of the stream
	prefix  []byte // of the subscriber's stream
	log     *track.Log
	encoder moqt.SubgroupEncoder
	parts   []part
}

// part is where an object ends in a subgroup.
type part struct {
	end   int64 // log offset
	frame int   // index of the object in the trace
}

// virtualClock is the time of the simulation.
type virtualClock struct{ now clock.Time }

// The simulation begins at times that are not 0, which means "never" here and there.
const begin = clock.Time(time.Hour)

var beginWall = time.Unix(1_700_000_000, 0)

func (c *virtualClock) Now() clock.Time             { return c.now }
func (c *virtualClock) At(t time.Time) clock.Time   { return begin.Add(t.Sub(beginWall)) }
func (c *virtualClock) When(t clock.Time) time.Time { return beginWall.Add(t.Sub(begin)) }
func (c *virtualClock) Wall() time.Time             { return c.When(c.now) }

// event is something that happens at a time.
type event struct {
	at clock.Time
	do func()
}

// plan adds an event. Events of the same time happen in the order in which they were planned.
func (s *simulation) plan(at clock.Time, do func()) {
	later := sort.Search(len(s.events), func(i int) bool { return s.events[i].at > at })
	s.events = slices.Insert(s.events, later, event{at, do})
}

const (
	mtu          = 1350 // of QUIC packets
	connIDLength = 8
	maxAckDelay  = 25 * time.Millisecond
	noLimit      = 1 << 40 // of flow control: the path is the limit
	noStreams    = 1 << 20
)

const suite = tls.TLS_CHACHA20_POLY1305_SHA256

var secret = []byte("the traffic secret of a replay..")

// newSimulation prepares a replay.
func newSimulation(t *Trace, subject Subject, seed uint64) (*simulation, error) {
	s := &simulation{trace: t, clock: &virtualClock{begin}}
	s.path = path{changes: t.Path, begin: begin, rng: rand.New(rand.NewPCG(seed, 'p'))}
	var err error
	if s.receiver, err = newReceiver(s); err != nil {
		return nil, err
	}
	cfg := media.LoopConfig{Rule: subject.Policy.Admit, Logger: slog.New(slog.DiscardHandler)}
	s.loop = media.NewStepped(cfg, s.clock, s)
	s.sender = s.loop.NewSender(media.SenderConfig{
		NewController: subject.Controller.seeded(seed), DropPolicy: subject.Policy.New(),
	}).Hooks()
	s.connect()
	for range len(t.bitrates) + 1 {
		s.tracks = append(s.tracks, subscription{
			Subscription: s.subscribe(), until: everyGroup, open: make(map[uint64]*subgroup),
		})
	}
	for i := range t.Objects {
		s.plan(begin.Add(t.Objects[i].At), func() { s.publish(i) })
	}
	if t.Bulk {
		bulk := &bulkFlow{simulation: s, controller: congestion.NewCubic(bulkPacket), progress: begin}
		s.plan(begin, bulk.send)
	}
	s.ladder = newLadder(s)
	return s, nil
}

// connect gives the sender the same as quic-go when the handshake is confirmed.
func (s *simulation) connect() {
	s.sender.NextPacketNumber()
	s.sender.PeerParameters(quic.PeerParameters{
		MaxData: noLimit, MaxStreamDataUni: noLimit, MaxStreamsUni: noStreams, MaxUDPPayloadSize: 1452,
		AckDelayExponent: 3, MaxAckDelay: maxAckDelay,
	})
	s.sender.Keys(0, suite, packet.Version1, nil, secret)
	s.sender.Keys(0, suite, packet.Version1, secret, nil)
	s.sender.Path(quic.PathInfo{
		Remote:     &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4433},
		DestConnID: quic.ConnectionIDFromBytes(make([]byte, connIDLength)), MTU: mtu,
	})
}

// subscribe adds a subscription. As at the relay, it ends when it is too far behind (draft §8).
func (s *simulation) subscribe() (sub *media.Subscription) {
	sub = s.sender.NewSubscription(media.SubscriptionConfig{Priority: 128, OnBehind: func(int64, time.Duration) {
		sub.Close(uint64(moqt.ResetTooFarBehind))
	}})
	return sub
}

// run runs the simulation until nothing that arrives matters any more.
func (s *simulation) run() error {
	end := begin.Add(s.trace.length + 2*playback.Playout)
	for s.failure == nil {
		next := s.loop.Step()
		if len(s.events) > 0 {
			next = min(next, s.events[0].at)
		}
		if next > end {
			break
		}
		s.clock.now = max(s.clock.now, next)
		for len(s.events) > 0 && s.events[0].at <= s.clock.now {
			first := s.events[0]
			s.events = s.events[1:]
			first.do()
		}
	}
	return errors.Join(s.failure, s.loop.Close())
}

// fail ends the simulation.
func (s *simulation) fail(err error) {
	if s.failure == nil && err != nil {
		s.failure = err
	}
}

// publish appends an object to the log of its subgroup, as its publisher would. A new group ends the last.
func (s *simulation) publish(index int) {
	o := &s.trace.Objects[index]
	t := &s.tracks[o.Track]
	if o.Group != t.group {
		for _, id := range slices.Sorted(maps.Keys(t.open)) { // in an order that is the same each time
			t.open[id].log.Finish()
		}
		clear(t.open)
		t.group = o.Group
	}
	if s.ladder != nil {
		s.ladder.published(o)
	}
	if o.Group < t.from || o.Group >= t.until || t.ended {
		return
	}
	g := t.open[o.Subgroup]
	begins := g == nil
	if begins {
		g = s.newSubgroup()
	}
	start := g.log.End()
	data, err := g.encoder.AppendObject(nil, moqt.ObjectHeader{ObjectID: o.ID, PayloadLength: uint64(o.Size)})
	if err != nil {
		s.fail(fmt.Errorf("object %d: %w", index+1, err))
		return
	}
	payload := start + int64(len(data))
	data = append(data, make([]byte, o.Size)...)
	if t.ended = begins && !t.opens(g, o); t.ended {
		return
	}
	g.parts = append(g.parts, part{payload + int64(o.Size), index})
	s.fail(g.log.AddObject(track.Object{
		ID: o.ID, Start: start, IDEnd: start + 1, PayloadStart: payload, End: payload + int64(o.Size),
		Received: s.clock.Wall(),
	}))
	g.log.Append(data)
}

// newSubgroup begins a stream of the publisher.
func (s *simulation) newSubgroup() *subgroup {
	s.streams++
	g := &subgroup{
		number: 4*s.streams + 2, log: track.NewLog(0, nil),
		encoder: moqt.NewSubgroupEncoder(moqt.DataLayout1, moqt.SubgroupHeader{}),
	}
	g.prefix = s.receiver.expect(g)
	g.log.Discard(math.MaxInt64) // nobody fetches it
	return g
}

// opens opens the subscriber's stream of a subgroup that an object begins. It reports false if the subscription has
// ended.
func (t *subscription) opens(g *subgroup, o *Object) bool {
	_, err := t.OpenStream(media.StreamConfig{
		Prefix: g.prefix, Log: g.log, Group: o.Group, Subgroup: o.Subgroup, Priority: o.Priority,
		PublisherStream: &claim.PublisherStream{StreamID: g.number, Prefix: g.prefix},
	})
	if err != nil {
		return false
	}
	t.open[o.Subgroup] = g
	return true
}

// Trains implements [udp.Socket].
func (s *simulation) Trains() bool { return false }

// Name implements [udp.Socket].
func (s *simulation) Name(netip.AddrPort) []byte { return nil }

// Write implements [udp.Socket]: the sender's packets go on the path.
func (s *simulation) Write(messages []udp.Message) {
	for _, m := range messages {
		s.sent++
		p := append([]byte(nil), m.Data...)
		s.transmit(len(p), func() { s.receiver.receive(p) })
	}
}

// transmit puts n bytes on the path, which may lose them.
func (s *simulation) transmit(n int, arrived func()) {
	if leaves, ok := s.path.send(s.clock.now, n); ok {
		s.plan(leaves, func() { s.path.left(n) })
		s.plan(leaves.Add(s.path.delay(leaves)), arrived)
	}
}

// back plans the effect of the peer's packets on the sender. They are neither lost nor queued.
func (s *simulation) back(do func()) { s.plan(s.clock.now.Add(s.path.delay(s.clock.now)), do) }

// frames returns the objects with their fates. Of several renditions, the ones that the player takes count.
func (s *simulation) frames() (frames []playback.Frame) {
	index := make(map[place]int)
	var fitting []int
	if s.ladder != nil {
		fitting = s.trace.Fitting()
	}
	for i := range s.trace.Objects {
		o := &s.trace.Objects[i]
		f := playback.Frame{Kind: s.trace.kind(o), Due: o.At, Published: o.At, Needs: -1, Bytes: o.Size}
		if s.ladder != nil && f.Kind != playback.Audio {
			if f.Rendition = s.trace.rank(o.Track); f.Rendition != s.ladder.taken(o.Group) {
				continue
			}
			f.Fitting = fitting[int(f.Due/FittingStep)]
		}
		if o.Needs != nil {
			f.Needs = index[place{o.Track, o.Group, *o.Needs}]
		}
		if at := s.receiver.arrivedAt[i]; at != 0 {
			f.Arrived, f.At = true, at.Sub(begin)
		}
		index[place{o.Track, o.Group, o.ID}] = len(frames)
		frames = append(frames, f)
	}
	return frames
}
