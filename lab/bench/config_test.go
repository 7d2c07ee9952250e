package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab/bench/result"
	"sluice/lab/bench/system"
	"sluice/lab/bench/trial"
)

func TestConfig(t *testing.T) {
	good := func() RunConfig {
		programs := trial.Programs{Sluice: "sluice", Generator: "sluice-lab"}
		return RunConfig{Programs: programs, Systems: system.Sluice("1")}
	}
	require.NoError(t, good().Validate())
	for _, c := range []struct {
		want   string
		change func(*RunConfig)
	}{
		{"the programs sluice-lab and sluice", func(c *RunConfig) { c.Programs.Generator = "" }},
		{"at least one relay", func(c *RunConfig) { c.Systems = nil }},
		{"two relays are named sluice", func(c *RunConfig) { c.Systems = append(c.Systems, c.Systems[0]) }},
		{`there is no scenario "jitter"`, func(c *RunConfig) { c.Kinds = []string{result.KindCPU, "jitter"} }},
		{"--subscribers: 0: must be between 1 and 1000", func(c *RunConfig) { c.Subscribers = []int{1, 0} }},
		{"--repetitions: -1: must be between 1 and 100", func(c *RunConfig) { c.Repetitions = -1 }},
		{"--duration: 10ms: must be between 1s and 10m0s", func(c *RunConfig) { c.Duration = 10 * time.Millisecond }},
		{"bytes of a frame: 9: must be between 20 and 1048576", func(c *RunConfig) { c.Rate = 2000 }},
	} {
		cfg := good()
		c.change(&cfg)
		require.ErrorContains(t, cfg.Validate(), c.want)
	}

	brief := RunConfig{Brief: true}.withDefaults()
	require.Equal(t, []int{1, 10}, brief.Subscribers)
	require.Equal(t, 3*time.Second, brief.Duration)
	set := RunConfig{Brief: true, Repetitions: 5, Subscribers: []int{50}, Duration: time.Minute}.withDefaults()
	require.Equal(t, 5, set.Repetitions)
	require.Equal(t, []int{50}, set.Subscribers)
	require.Equal(t, time.Minute, set.Duration)

	usual, fast := good().withDefaults(), good()
	fast.Rate = 5e6
	name := func(c RunConfig) string {
		return c.scenario(result.KindCPU, "10/idle", "10", c.withMock(result.Params{}, 10)).Name
	}
	require.Equal(t, "cpu/10/idle", name(usual))
	require.Equal(t, "cpu/10/idle/5Mbit", name(fast), "other media, another scenario")
}
