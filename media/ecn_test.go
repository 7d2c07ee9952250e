package media

import (
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"sluice/congestion"
	"sluice/track"
)

// marked is a sender on a path that does something to ECN marks, and the counts of its peer.
type marked struct {
	*world
	controller *fixedController
	log        *track.Log
	path       func(mark byte) byte
	counts     [4]uint64 // by ECN bits
}

func newMarked(t *testing.T, path func(mark byte) byte) *marked {
	f := &fixedController{window: 1 << 20}
	return newMarkedBy(t, f, f, path)
}

// newMarkedBy is newMarked with a controller that passes on to f.
func newMarkedBy(
	t *testing.T, c congestion.Controller, f *fixedController, path func(mark byte) byte,
) *marked {
	w := newWorld(t, func(cfg *worldConfig) {
		cfg.sender.NewController = func(int) congestion.Controller { return c }
	})
	if w.s.path.marked == nil {
		t.Skip("the system cannot mark packets")
	}
	log := newTestLog(0, 10)
	w.stream(w.subscribe(), log)
	return &marked{world: w, controller: f, log: log, path: path}
}

// send sends n packets. It returns the marks that they had.
func (m *marked) send(n int) (marks []byte) {
	for range n {
		m.log.Append(testBytes(m.log.End(), 100))
		for _, q := range m.run() {
			marks = append(marks, q.ecn)
			m.counts[m.path(q.ecn)]++
		}
	}
	return marks
}

// acknowledge acknowledges all packets, with the counts.
func (m *marked) acknowledge() {
	m.clock.advance(20 * ms)
	_, err := m.s.Acked(&quic.AckInfo{
		Ranges: m.peer.ranges(), Received: m.clock.Wall(), ECT0: m.counts[2], ECT1: m.counts[1], ECNCE: m.counts[3],
	})
	require.NoError(m.t, err)
}

// A path that makes of each mark what path says, for the first packets and for later ones, ends up in that state.
func TestECNValidation(t *testing.T) {
	keep := func(mark byte) byte { return mark }
	bleach := func(byte) byte { return 0 }
	mangle := func(mark byte) byte { return mark | mark>>1 }
	swap := func(mark byte) byte { return mark >> 1 }
	for name, c := range map[string]struct {
		first, later func(mark byte) byte
		state        ecnPhase
		reason       Reason
	}{
		"marks arrive":              {keep, keep, ecnCapable, none},
		"marks are removed":         {bleach, bleach, ecnOff, ECNUnreported},
		"marks are removed later":   {keep, bleach, ecnOff, ECNBleached},
		"all are congested":         {mangle, mangle, ecnOff, ECNMangled},
		"all are congested for now": {mangle, keep, ecnCapable, none},
		"congestion":                {keep, mangle, ecnCapable, none},
		"ECT(1)":                    {keep, swap, ecnOff, ECNMiscounted},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMarked(t, c.first)
			require.Equal(t, []byte{2, 2, 2}, m.send(3))
			m.acknowledge()
			m.path = c.later
			for range 5 {
				m.send(2)
				m.acknowledge()
			}
			require.Equal(t, c.state.String(), m.s.Stats().ECN)
			mark := byte(0)
			if c.state == ecnCapable {
				mark = ect0
			}
			require.Equal(t, []byte{mark, mark}, m.send(2))
			require.EqualValues(t, mark, m.s.state.ECN.Load(), "the forwarder does the same")
			for r := ECNUnanswered; r <= ECNMiscounted; r++ {
				want := uint64(0)
				if r == c.reason {
					want = 1
				}
				require.Equal(t, want, m.s.Stats().Reasons[r], r)
			}
		})
	}
}

// scalable is a controller whose packets have ECT(1).
type scalable struct{ *fixedController }

func (scalable) Smooth() bool { return true }

// A scalable controller's packets have ECT(1). The counts of ECT(0) are then those of quic-go's first packets, and say
// nothing; the path must leave our mark as it is.
func TestECNScalable(t *testing.T) {
	keep := func(mark byte) byte { return mark }
	toECT0 := func(mark byte) byte { return mark << 1 }
	for name, c := range map[string]struct {
		first, later func(mark byte) byte
		sent, counts uint64 // packets of quic-go with ECT(0)
		state        ecnPhase
		reason       Reason
	}{
		"marks arrive":             {keep, keep, 0, 0, ecnCapable, none},
		"quic-go's marks":          {keep, keep, 2, 2, ecnCapable, none},
		"more than were sent":      {keep, keep, 2, 10, ecnOff, ECNMiscounted},
		"ECT(0) from the begin on": {toECT0, toECT0, 0, 0, ecnOff, ECNUnreported},
		"ECT(0) later":             {keep, toECT0, 0, 0, ecnOff, ECNBleached},
		"congestion":               {keep, func(byte) byte { return 3 }, 0, 0, ecnCapable, none},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fixedController{window: 1 << 20}
			m := newMarkedBy(t, scalable{f}, f, c.first)
			require.EqualValues(t, ect1, m.s.state.ECN.Load(), "the forwarder does the same")
			m.s.state.NextPN.Add(c.sent)
			require.Equal(t, []byte{1, 1, 1}, m.send(3))
			m.counts[2] += c.counts
			m.acknowledge()
			m.path = c.later
			for range 3 {
				m.send(2)
				m.acknowledge()
			}
			require.Equal(t, c.state.String(), m.s.Stats().ECN)
			if c.reason != none {
				require.Equal(t, uint64(1), m.s.Stats().Reasons[c.reason])
			}
			if name == "congestion" {
				last := f.acked[len(f.acked)-1]
				require.Equal(t, []int{2, 2}, []int{last.CE, last.Packets})
			}
		})
	}
}

// Counts that no peer can have are not believed.
func TestECNMiscounted(t *testing.T) {
	for name, change := range map[string]func(*[4]uint64){
		"fewer ECT(0)":        func(c *[4]uint64) { c[2]-- },
		"fewer CE":            func(c *[4]uint64) { c[3]-- },
		"ECT(1)":              func(c *[4]uint64) { c[1]++ },
		"more than were sent": func(c *[4]uint64) { c[2] += 10 },
		"more CE":             func(c *[4]uint64) { c[3] += 10 },
		"overflow":            func(c *[4]uint64) { c[2], c[3] = 1<<62-1, 1<<62-1 },
	} {
		ce := true
		m := newMarked(t, func(mark byte) byte {
			if ce = !ce; ce {
				return 3
			}
			return mark
		})
		m.send(4)
		m.acknowledge()
		m.send(1)
		change(&m.counts)
		m.acknowledge()
		require.Equal(t, "off", m.s.Stats().ECN, name)
		require.Positive(t, m.s.Stats().Reasons[ECNMiscounted]+m.s.Stats().Reasons[ECNBleached], name)
	}
}

// newPaused is a sender whose first packets, which are marked, were not acknowledged before the probe timeout.
func newPaused(t *testing.T) *marked {
	m := newMarked(t, func(mark byte) byte { return mark })
	require.Equal(t, []byte{2, 2}, m.send(2))
	m.clock.t = max(m.shard.alarms.next(), m.clock.t.Add(2*time.Second))
	for _, q := range m.run() {
		require.Zero(t, q.ecn, "probes")
	}
	require.Equal(t, "paused", m.s.Stats().ECN)
	require.Equal(t, uint64(1), m.s.Stats().Reasons[ECNUnanswered])
	return m
}

// A path that drops marked packets gets others after a probe timeout.
func TestECNPaused(t *testing.T) {
	m := newPaused(t)
	arrived := m.peer.received
	m.peer.received = nil
	m.peer.received.add(arrived[len(arrived)-1].to-1, arrived[len(arrived)-1].to)
	counts := m.counts
	m.counts = [4]uint64{1}
	m.acknowledge() // of a probe only
	require.Equal(t, "paused", m.s.Stats().ECN)
	m.counts, m.peer.received = counts, arrived
	require.Equal(t, []byte{0}, m.send(1))
	m.acknowledge()
	require.Equal(t, "paused", m.s.Stats().ECN, "what was lost says nothing")
}

// The peer's counts are anything, and never end a connection or grow the window.
func FuzzECN(f *testing.F) {
	f.Add([]byte{2, 0, 0, 4, 0, 0, 4, 0, 1, 5, 0, 2})
	f.Fuzz(func(t *testing.T, in []byte) {
		w := newWorld(t, func(c *worldConfig) {
			c.sender.NewController = congestion.NewBBR
			if len(in)%2 == 1 {
				c.sender.NewController = congestion.NewPrague
			}
		})
		log := newTestLog(0, 10)
		w.stream(w.subscribe(), log)
		for ; len(in) >= 3; in = in[3:] {
			log.Append(testBytes(log.End(), 100))
			w.run()
			w.clock.advance(ms)
			_, err := w.s.Acked(&quic.AckInfo{
				Ranges: w.peer.ranges(), Received: w.clock.Wall(),
				ECT0: uint64(in[0]), ECT1: uint64(in[1]), ECNCE: uint64(in[2]),
			})
			require.NoError(t, err)
			require.LessOrEqual(t, w.s.Stats().Window, congestion.MaxWindow)
		}
	})
}
