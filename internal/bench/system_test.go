package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSplitCommand(t *testing.T) {
	for text, want := range map[string][]string{
		"relay --bind {addr}":         {"relay", "--bind", "{addr}"},
		"  relay\t-a\n-b  ":           {"relay", "-a", "-b"},
		`relay 'a b' "c 'd'" e"f g"h`: {"relay", "a b", "c 'd'", "ef gh"},
		`relay '' --name=""`:          {"relay", "", "--name="},
	} {
		words, err := splitCommand(text)
		require.NoError(t, err)
		require.Equal(t, want, words)
	}
	for _, bad := range []string{"", "   ", "relay 'open", `relay "open`} {
		_, err := splitCommand(bad)
		require.Error(t, err, "%q", bad)
	}
}

func TestExpand(t *testing.T) {
	words, err := expand([]string{"relay", "--bind={addr}", "{cert}{key}", "{not a placeholder}", "{addr}"}, map[string]string{"addr": "[::]:4443", "cert": "c{key}", "key": "k"})
	require.NoError(t, err)
	require.Equal(t, []string{"relay", "--bind=[::]:4443", "c{key}k", "{not a placeholder}", "[::]:4443"}, words)
	_, err = expand([]string{"{adr}"}, map[string]string{"addr": "x"})
	require.ErrorContains(t, err, "no placeholder {adr}; there are {addr}, {host}")
}

func TestSpecs(t *testing.T) {
	for _, s := range Sluice("1") {
		require.NoError(t, s.validate())
	}
	for want, s := range map[string]Spec{
		"a name and a command":                               {Name: "x"},
		"relay x: its command has neither {addr} nor {port}": {Name: "x", Command: "relay --listen :4443"},
		"no placeholder {address}":                           {Name: "x", Command: "relay {address}"},
		"ends within '":                                      {Name: "x", Command: "relay '{addr}"},
	} {
		require.ErrorContains(t, s.validate(), want)
	}
	require.True(t, Spec{}.takesPart([]string{KindCPU}))
	require.True(t, Spec{Kinds: []string{KindCongestion}}.takesPart([]string{KindDelay, KindCongestion}))
	require.False(t, Spec{Kinds: []string{KindCongestion}}.takesPart([]string{KindDelay}))
}

func TestConfig(t *testing.T) {
	good := func() Config { return Config{Program: "sluice-lab", Sluice: "sluice", Systems: Sluice("1")} }
	require.NoError(t, good().Validate())
	for want, change := range map[string]func(*Config){
		"the programs sluice-lab and sluice": func(c *Config) { c.Program = "" },
		"at least one relay":                 func(c *Config) { c.Systems = nil },
		"two relays are named sluice":        func(c *Config) { c.Systems = append(c.Systems, c.Systems[0]) },
		`there is no scenario "jitter"`:      func(c *Config) { c.Kinds = []string{KindCPU, "jitter"} },
		"0 subscribers":                      func(c *Config) { c.Subscribers = []int{1, 0} },
		"1001 subscribers":                   func(c *Config) { c.MaxCapacity = 1001 },
		"-1 repetitions":                     func(c *Config) { c.Repetitions = -1 },
		"runs of 10ms":                       func(c *Config) { c.Duration = 10 * time.Millisecond },
		"frames of 9 and":                    func(c *Config) { c.Rate = 2000 },
	} {
		c := good()
		change(&c)
		require.ErrorContains(t, c.Validate(), want)
	}

	usual, fast := good().withDefaults(), good()
	fast.Rate = 5e6
	require.Equal(t, "cpu/10/idle", usual.scenario(KindCPU, "10/idle", "10", usual.mockParams(10)).Name)
	require.Equal(t, "cpu/10/idle/5Mbit", fast.scenario(KindCPU, "10/idle", "10", fast.mockParams(10)).Name, "other media, another scenario")
}

// usageOf is a period of 10 s on two cores with a little of everything.
func usageOf(change func(*usage)) *usage {
	u := &usage{
		period: 10 * time.Second, cores: 2, busy: 4 * time.Second, others: time.Second, idle: .05,
		relay: processTimes{600 * time.Millisecond, 400 * time.Millisecond}, publisher: processTimes{user: 500 * time.Millisecond}, subs: processTimes{user: 700 * time.Millisecond},
		ebpf: 200 * time.Millisecond, packets: 10_000, subscribers: 10, kernelPackets: 9000, userPackets: 1000,
		lateP99: time.Millisecond, frameInterval: 40 * time.Millisecond,
	}
	if change != nil {
		change(u)
	}
	return u
}

func TestUsage(t *testing.T) {
	o := newOutcome()
	usageOf(nil).add(o)
	usageOf(nil).addCPU(o)
	require.Empty(t, o.Notes)
	for name, want := range map[string]float64{
		"cpu.system": 25, "cpu.relay": 12, "cpu.relay.user": 6, "cpu.ebpf": 2, "cpu.publisher": 5, "cpu.subscribers": 7, "cpu.subscriber": 1.2,
		"cpu.packet": 250, "cpu.packet.relay": 120, "busy": 20, "kernel": 90, "others": 10, "generator": 12, "packets": 10_000, "late": 1,
	} {
		require.InDelta(t, want, o.Metrics[name], 1e-9, name)
		require.Contains(t, quantities, name)
	}
	var sum float64
	for _, v := range o.Breakdowns["cpu"] {
		sum += v
	}
	require.InDelta(t, o.Metrics["cpu.system"], sum, 1e-9, "the parts are the whole")

	o = newOutcome()
	usageOf(func(u *usage) { u.idle = -60 }).addCPU(o)
	require.NotContains(t, o.Metrics, "cpu.system", "more than the machine was busy")

	o = newOutcome()
	hidden := usageOf(func(u *usage) { u.others, u.kernelPackets, u.userPackets = 4*time.Second, 0, 0 })
	hidden.add(o)
	hidden.addCPU(o)
	for _, name := range []string{"cpu.system", "cpu.packet", "kernel"} {
		require.NotContains(t, o.Metrics, name)
	}
	require.Empty(t, o.of(KindDelay).Notes)
	require.Equal(t, []string{"unrelated processes hide what the whole system used"}, o.of(KindCPU).Notes)
	require.Equal(t, "unrelated processes used up to 40% of a core", summarize("sluice", []outcome{*o}).noise())
	require.Empty(t, Summary{}.noise())
}

func TestBottlenecks(t *testing.T) {
	require.Empty(t, usageOf(nil).bottleneck())
	require.Empty(t, usageOf(nil).exhausted())
	require.Contains(t, usageOf(func(u *usage) { u.publisher.user = 9 * time.Second }).bottleneck(), "used 88% of a core")
	require.Contains(t, usageOf(func(u *usage) { u.lateP99 = 25 * time.Millisecond }).bottleneck(), "it was 25ms or more late")
	full := func(change func(*usage)) string {
		return usageOf(func(u *usage) {
			u.busy = 19900 * time.Millisecond
			change(u)
		}).exhausted()
	}
	require.Contains(t, full(func(u *usage) { u.subs.user = 12 * time.Second }), "the load generators were the bottleneck: the machine was busy, and they used 123% of a core, the relay 12%")
	require.Contains(t, full(func(u *usage) { u.others = 15 * time.Second }), "other things, which used 150% of a core")
	require.Empty(t, full(func(u *usage) { u.relay.user = 15 * time.Second }), "the relay itself needs it all")
}
