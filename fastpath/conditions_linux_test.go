package fastpath_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/stretchr/testify/require"

	"sluice/internal/thorough"
	"sluice/lab"
	"sluice/moqt"
	"sluice/relay"
	"sluice/transport"
)

// scenario is a broadcast under adverse conditions.
type scenario struct {
	topology lab.Topology
	publish  func(b *broadcast, r *rand.Rand, group uint64)
	groups   int
	during   func(w *world, r *rand.Rand) // is called again and again
	every    time.Duration                // about; default: 50 ms
	updates  uint64                       // packets after which either side updates its keys; default: quic-go's
	dialed   dialed
}

//go:linkname firstKeyUpdate github.com/quic-go/quic-go/internal/handshake.FirstKeyUpdateInterval
var firstKeyUpdate uint64

//go:linkname keyUpdateInterval github.com/quic-go/quic-go/internal/handshake.keyUpdateInterval
var keyUpdateInterval atomic.Uint64

// useKeyUpdates makes all connections update their keys after so many packets.
func useKeyUpdates(t testing.TB, packets uint64) {
	a, b := firstKeyUpdate, keyUpdateInterval.Load()
	firstKeyUpdate = packets
	keyUpdateInterval.Store(packets)
	t.Cleanup(func() { firstKeyUpdate = a; keyUpdateInterval.Store(b) })
}

// video publishes a group like video's: a large object and small ones.
func video(b *broadcast, r *rand.Rand, group uint64) {
	sizes := []int{5000 + r.IntN(20000)}
	for range 10 {
		sizes = append(sizes, r.IntN(4000))
	}
	b.send(anyHeader(r, group), uint64(r.IntN(3)), time.Millisecond, sizes...)
}

// anyHeader returns a header in one of the possible forms.
func anyHeader(r *rand.Rand, group uint64) moqt.SubgroupHeader {
	h := moqt.SubgroupHeader{GroupID: group, SubgroupIDMode: moqt.SubgroupIDMode(r.IntN(3)), EndOfGroup: r.IntN(2) == 0,
		DefaultPriority: r.IntN(2) == 0}
	if h.SubgroupIDMode == moqt.SubgroupIDPresent {
		h.SubgroupID = r.Uint64N(1 << 20)
	}
	if !h.DefaultPriority {
		h.Priority = uint8(r.IntN(256))
	}
	return h
}

// toggle switches the fast path off and on.
func toggle(w *world, r *rand.Rand) {
	w.relay.SetFastPathPolicy(relay.FastPathBudget(r.IntN(3) - 1))
}

// rebindEvery leaves the server connection IDs for the next path: it learns of new ones when the path works.
const rebindEvery = 500 * time.Millisecond

// rebind changes a client's address: a subscriber's, or the relay's for a subscriber that it has dialed, and all others
// on the same device.
func rebind(w *world, r *rand.Rand) {
	h := w.lab.Subscribers[r.IntN(len(w.lab.Subscribers))]
	client := h.Devices[0]
	if w.dials(h) {
		client = w.lab.Relay.Facing(h)
	}
	require.NoError(w, client.Link.Rebind())
}

var scenarios = map[string]scenario{
	"address changes": {topology: lab.Topology{Subscribers: 2}, publish: video, groups: 40, during: rebind,
		every: rebindEvery},
	"large objects":     {topology: lab.Topology{Subscribers: 1}, publish: large, groups: 2},
	"datagrams toggled": {topology: lab.Topology{Subscribers: 2}, publish: datagrams, groups: 60, during: toggle},
	"key updates":       {topology: lab.Topology{Subscribers: 2}, publish: video, groups: 30, updates: 40},
	"one device":        {topology: lab.Topology{Subscribers: 2, OneDevice: true}, publish: video, groups: 10},
	"checksums in host": {topology: lab.Topology{Subscribers: 2, SoftwareChecksums: true}, publish: video, groups: 10},
}

func large(b *broadcast, r *rand.Rand, group uint64) {
	b.send(anyHeader(r, group), 0, 0, 1_200_000+r.IntN(1_000_000), 100)
}

// datagrams publishes objects in datagrams, a few of them twice, and between them a subgroup.
func datagrams(b *broadcast, r *rand.Rand, group uint64) {
	for id := range uint64(10) {
		o := moqt.ObjectDatagram{
			Location:        moqt.Location{Group: group, Object: 100 + id},
			DefaultPriority: r.IntN(2) == 0, EndOfGroup: id == 9, Payload: make([]byte, 1+r.IntN(1000)),
		}
		if !o.DefaultPriority {
			o.Priority = uint8(r.IntN(256))
		}
		if r.IntN(2) == 0 {
			o.Properties = moqt.Properties{2, 9}
		}
		b.datagram(o, 1+r.IntN(5)/4)
		time.Sleep(time.Millisecond)
	}
	b.send(present(group, 1), 0, 0, r.IntN(1000))
}

// TestConditions compares the objects that subscribers get with the published ones: with connections that clients have
// dialed, and with some that the relay has. The simulation has all other conditions.
//
// make check runs all scenarios in all ways, and make test each in one of them.
func TestConditions(t *testing.T) {
	for i, name := range slices.Sorted(maps.Keys(scenarios)) {
		s := scenarios[name]
		for d := dialed(0); d <= dialAll; d++ {
			if i%4 != int(d) && !thorough.Set() {
				continue
			}
			t.Run(fmt.Sprintf("%s, %v", name, d), func(t *testing.T) {
				s.mayBeParallel(t)
				s := s
				s.dialed = d
				s.run(t, 1+uint64(d)) // the seed chooses transports and IP versions
			})
		}
	}
}

// mayBeParallel lets scenarios run beside each other, as they mostly wait. Scenarios with key updates run alone: how
// many packets come before an update is set for all connections of the process.
func (s scenario) mayBeParallel(t *testing.T) {
	if s.updates == 0 {
		t.Parallel()
	}
}

func (s scenario) run(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	s.topology.Seed = seed
	if s.updates > 0 {
		useKeyUpdates(t, s.updates)
	}
	w := newWorld(t, worldConfig{topology: s.topology, v6: r.IntN(2) == 0, dialed: s.dialed})
	schemes := []string{"moqt", "https"}
	p := w.publisher(schemes[r.IntN(2)])
	var viewers []*viewer
	for _, h := range w.lab.Subscribers {
		session := w.connect(h, schemes[r.IntN(2)], nil, transport.Limits{})
		viewers = append(viewers, w.subscribe(session, trackName(0)))
	}
	b := w.broadcast(<-p.subscribed)
	stop := s.start(w, r.Uint64())
	defer stop()
	for g := range uint64(s.groups) {
		s.publish(b, r, g)
	}
	stop()
	for _, v := range viewers {
		w.expect(v, b, 0)
	}
	counts := w.report()
	if s.updates > 0 { // packets under a new key, before user space has seen one
		require.Greater(t, counts["packet_no_key"]+counts["packet_forged"], uint64(10))
	}
}

// start calls during until the returned function is called.
func (s scenario) start(w *world, seed uint64) (stop func()) {
	if s.during == nil {
		return func() {}
	}
	r := rand.New(rand.NewPCG(seed, 0))
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Duration((0.5 + r.Float64()) * float64(cmp.Or(s.every, 50*time.Millisecond)))):
				s.during(w, r)
			}
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		wg.Wait()
	})
}
