package fastpath_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/fastpath"
	"sluice/fastpath/bpf/bpftest"
	"sluice/lab"
	"sluice/moqt"
	"sluice/relay"
	"sluice/transport"
)

// TestRule gives the relay an operator's program that admits groups with even numbers. Subscribers get these, byte for
// byte, and nothing of the others: with the fast path and without. The kernel decides, too.
func TestRule(t *testing.T) {
	for _, off := range []bool{false, true} {
		t.Run(fmt.Sprintf("fastpath=%v", !off), func(t *testing.T) {
			t.Parallel() // they mostly wait
			testRule(t, off)
		})
	}
}

func testRule(t *testing.T, off bool) {
	rule, err := fastpath.LoadRule("bpf/bpftest/rule_bpfel.o", slog.Default())
	bpftest.RequireKernel(t, err)
	t.Cleanup(func() { require.NoError(t, rule.Close()) })
	w := newWorld(t, worldConfig{
		topology: lab.Topology{Subscribers: 1}, off: off, budget: relay.FastPathBudget(0), rule: rule,
	})
	p := w.publisher("moqt")
	v := w.subscribe(w.connect(w.lab.Subscribers[0], "moqt", nil, transport.Limits{}), trackName(0))
	pub := <-p.subscribed
	even, odd := w.broadcast(pub), w.broadcast(pub)
	const groups = 21
	for g := range uint64(groups) {
		b := even
		if g%2 > 0 {
			b = odd
		}
		b.send(moqt.SubgroupHeader{GroupID: g}, 0, 5*time.Millisecond, 3000, 100, 1200)
		b.datagram(moqt.ObjectDatagram{Location: moqt.Location{Group: g, Object: 100}, Payload: make([]byte, 300)}, 1)
	}
	require.Eventually(t, func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return len(v.streams) == len(even.streams)
	}, time.Minute, 10*time.Millisecond)
	v.mu.Lock()
	defer v.mu.Unlock()
	require.Equal(t, even.streams, v.streams)
	require.NotEmpty(t, v.single)
	for at := range v.single { // some may be lost
		require.Contains(t, even.single, at)
	}
	for _, err := range v.errs { // a stream may be opened before its first object has come
		require.Regexp(t, `^subgroup \d*[13579]/0: stream canceled by the peer with code 0x2$`, err.Error())
	}
	require.Zero(t, rule.AskedWithoutLength(t), "each question has the length of a packet")
	counts := w.report()
	if off {
		return
	}
	require.Positive(t, counts["copy_sent"])
	require.Positive(t, counts["copy_policy"])
}
