package trial

import (
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"

	"sluice/lab/bench/procfs"
	"sluice/lab/measure"
)

const ms = time.Millisecond

// usageOf is a period of 10 s on two cores with a little of everything.
func usageOf(change func(*Usage)) *Usage {
	u := &Usage{
		Period: 10 * time.Second, Cores: 2, Busy: 4 * time.Second, Others: time.Second, Idle: .05,
		Relay: Share{
			Process:     procfs.ProcessTimes{User: 600 * time.Millisecond, System: 400 * time.Millisecond},
			Interrupted: 150 * time.Millisecond, Devices: 450 * time.Millisecond,
		},
		Publisher:   Share{Process: procfs.ProcessTimes{User: 500 * time.Millisecond}},
		Subscribers: Share{Process: procfs.ProcessTimes{User: 700 * time.Millisecond}},
		EBPF:        200 * time.Millisecond, Recorder: 100 * time.Millisecond, Packets: 10_000, Sessions: 10,
		Delivered:     2000,
		KernelPackets: 9000, UserPackets: 1000, LateP99: time.Millisecond, FrameInterval: 40 * time.Millisecond,
	}
	if change != nil {
		change(u)
	}
	return u
}

// A relay pays for its processes and for the packets of its devices: neither for others' packets that it was
// interrupted for, nor for the lab's recorder.
func TestRelayTotal(t *testing.T) {
	require.Equal(t, 1200*ms, usageOf(nil).RelayTotal())
	require.Equal(t, 400*ms, usageOf(nil).RelaySystem())
	interrupted := usageOf(func(u *Usage) { u.Relay.Interrupted, u.Relay.Devices = 2*time.Second, 850*ms })
	require.Equal(t, 750*ms, interrupted.RelayTotal(), "a process is interrupted at most as long as it runs")
	require.Equal(t, 500*ms, usageOf(nil).Publisher.Total())
	slow := usageOf(func(u *Usage) { u.Publisher.Interrupted, u.Publisher.Devices = 300*ms, 100*ms })
	require.Equal(t, 300*ms, slow.Publisher.Total(), "all systems and parts alike")
}

// The lab's programs are nobody's.
func TestSystemTotal(t *testing.T) {
	over, ok := usageOf(func(u *Usage) { u.Lab = 300 * ms }).SystemTotal()
	require.True(t, ok)
	require.Equal(t, 4*time.Second-time.Second-500*ms-300*ms, over)
	_, ok = usageOf(func(u *Usage) { u.Lab = 400 * ms }).SystemTotal()
	require.False(t, ok, "the whole is less than its parts")
	_, ok = usageOf(func(u *Usage) { u.Lab, u.Apart = 400*ms, true }).SystemTotal()
	require.True(t, ok, "others have machines of their own")
}

func TestPerFrame(t *testing.T) {
	u := usageOf(nil)
	require.Equal(t, 600., u.PerFrame(u.RelayTotal()))
	require.Equal(t, 120., u.PerPacket(u.RelayTotal()))
	require.Zero(t, new(Usage).PerFrame(0), "nothing was delivered")
}

// client_egress runs within server_ingress or within the process that sends, and is in their time. Another program is
// loaded in between, and one never runs.
func TestBetween(t *testing.T) {
	const ingress, egress, into, out, late, idle = 1, 2, 3, 4, 5, 6
	share := func(d time.Duration) Share { return Share{procfs.ProcessTimes{User: 5 * d, System: 2 * d}, d, 3 * d} }
	at := func(d time.Duration) moment {
		return moment{
			at: 10 * d, relay: share(d), publisher: share(2 * d), subscribers: share(3 * d),
			programs: map[ebpf.ProgramID]ProgramUse{
				ingress: {Name: "server_ingress", Runtime: 10 * d, Runs: uint64(d)},
				egress:  {Name: "client_egress", Runtime: 4 * d, Runs: uint64(2 * d), Within: true},
				into:    {Name: "record", Runtime: d, Runs: 1}, out: {Name: "record", Runtime: 2 * d, Runs: 1},
				idle: {Name: "idle", Runtime: ms, Runs: 1},
			},
		}
	}
	a, b := at(ms), at(3*ms)
	b.programs[late] = ProgramUse{Name: "late", Runtime: ms, Runs: 1}
	held := map[ebpf.ProgramID]bool{ingress: true, egress: true, late: true, idle: true}
	require.Equal(t, Usage{
		Begin: 10 * ms, Period: 20 * ms, Relay: share(2 * ms), Publisher: share(4 * ms), Subscribers: share(6 * ms),
		EBPF: 21 * ms, Lab: 6 * ms, Recorder: 4 * ms,
		Programs: []ProgramUse{
			{"server_ingress", 20 * ms, uint64(2 * ms), false}, {"client_egress", 8 * ms, uint64(4 * ms), true},
			{"late", ms, 1, false},
		},
	}, between(a, b, held, []ebpf.ProgramID{out}))
}

func TestBottlenecks(t *testing.T) {
	require.Empty(t, usageOf(nil).Bottleneck())
	require.Empty(t, usageOf(nil).Exhausted())
	require.Contains(t, usageOf(func(u *Usage) { u.Publisher.Process.User = 9 * time.Second }).Bottleneck(),
		"used 90% of a core")
	require.Contains(t, usageOf(func(u *Usage) { u.LateP99 = 25 * time.Millisecond }).Bottleneck(),
		"it was 25ms or more late")
	full := func(change func(*Usage)) string {
		return usageOf(func(u *Usage) {
			u.Busy = 19900 * time.Millisecond
			change(u)
		}).Exhausted()
	}
	require.Contains(t, full(func(u *Usage) { u.Subscribers.Process.User = 12 * time.Second }),
		"the load generators were the bottleneck: the machine was busy, and they used 125% of a core, the relay 12%")
	require.Contains(t, full(func(u *Usage) { u.Others = 15 * time.Second }), "other things, which used 150% of a core")
	require.Empty(t, full(func(u *Usage) { u.Relay.Process.User = 15 * time.Second }), "the relay itself needs it all")
}

func TestCountPackets(t *testing.T) {
	require.Equal(t, 2, countPackets([]measure.Packet{
		{Point: measure.In, Length: 1200},
		{Point: measure.Out, Length: 1200},
		{Point: measure.Out, Length: measure.MinLength - 1}, // an acknowledgement
		{Point: measure.Out, Length: measure.MinLength},
	}, 1))
	require.Equal(t, 1, countPackets([]measure.Packet{
		{Point: measure.Out, Length: 1200}, // to the next relay
		{Point: 2, Length: 1200},
	}, 2))
}
