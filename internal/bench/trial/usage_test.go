package trial

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/bench/procfs"
)

// usageOf is a period of 10 s on two cores with a little of everything.
func usageOf(change func(*Usage)) *Usage {
	u := &Usage{
		Period: 10 * time.Second, Cores: 2, Busy: 4 * time.Second, Others: time.Second, Idle: .05,
		Relay:       procfs.ProcessTimes{User: 600 * time.Millisecond, System: 400 * time.Millisecond},
		Publisher:   procfs.ProcessTimes{User: 500 * time.Millisecond},
		Subscribers: procfs.ProcessTimes{User: 700 * time.Millisecond},
		EBPF:        200 * time.Millisecond, Packets: 10_000, Sessions: 10, KernelPackets: 9000, UserPackets: 1000,
		LateP99: time.Millisecond, FrameInterval: 40 * time.Millisecond,
	}
	if change != nil {
		change(u)
	}
	return u
}

func TestBottlenecks(t *testing.T) {
	require.Empty(t, usageOf(nil).Bottleneck())
	require.Empty(t, usageOf(nil).Exhausted())
	require.Contains(t, usageOf(func(u *Usage) { u.Publisher.User = 9 * time.Second }).Bottleneck(),
		"used 88% of a core")
	require.Contains(t, usageOf(func(u *Usage) { u.LateP99 = 25 * time.Millisecond }).Bottleneck(),
		"it was 25ms or more late")
	full := func(change func(*Usage)) string {
		return usageOf(func(u *Usage) {
			u.Busy = 19900 * time.Millisecond
			change(u)
		}).Exhausted()
	}
	require.Contains(t, full(func(u *Usage) { u.Subscribers.User = 12 * time.Second }),
		"the load generators were the bottleneck: the machine was busy, and they used 123% of a core, the relay 12%")
	require.Contains(t, full(func(u *Usage) { u.Others = 15 * time.Second }), "other things, which used 150% of a core")
	require.Empty(t, full(func(u *Usage) { u.Relay.User = 15 * time.Second }), "the relay itself needs it all")
}
