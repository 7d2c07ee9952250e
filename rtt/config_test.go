package rtt

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/rtt/attach"
	"sluice/rtt/report"
)

func TestConfigDefaults(t *testing.T) {
	c := MonitorConfig{Sink: report.Tee{}}
	c.setDefaults()
	require.NoError(t, c.validate())
	require.True(t, c.TCP)
	require.Equal(t, DefaultRateLimit, c.RateLimit)

	c = MonitorConfig{Sink: report.Tee{}, DNS: true, RateLimit: -1}
	c.setDefaults()
	require.False(t, c.TCP, "a chosen protocol is the only one")
	require.Negative(t, c.RateLimit)
}

func TestConfigValidate(t *testing.T) {
	for want, change := range map[string]func(*MonitorConfig){
		"field Sink: must not be nil":                                func(c *MonitorConfig) { c.Sink = nil },
		`--ingress-hook: "tcp": must be tc, tcx, clsact or xdp`:      func(c *MonitorConfig) { c.Hook = "tcp" },
		`--xdp-mode: "fast": must be unspecified, native or generic`: func(c *MonitorConfig) { c.XDPMode = "fast" },
		`--rtt-type: "max": must be min or smoothed`:                 func(c *MonitorConfig) { c.RTTType = "max" },
		"--rtt-rate: -1: must be between 0 and 10000":                func(c *MonitorConfig) { c.RTTRate = -1 },
		"--rtt-rate: NaN: must be between 0 and 10000":               func(c *MonitorConfig) { c.RTTRate = math.NaN() },
		"--rate-limit: 25h0m0s: must be between 0s and 24h0m0s": func(c *MonitorConfig) {
			c.RateLimit = 25 * time.Hour
		},
		"--aggregate-by vlan: XDP may not see VLANs: must be with --ingress-hook tc": func(c *MonitorConfig) {
			c.Hook, c.AggregateBy.VLAN = attach.HookXDP, true
		},
		"--aggregate-parts has what --aggregate-reverse has: choose one of them": func(c *MonitorConfig) {
			c.AggregateParts, c.AggregateReverse = true, true
		},
		"--aggregate-by pair lists both parts of a path: leave out --aggregate-parts": func(c *MonitorConfig) {
			c.AggregateParts, c.AggregateBy.Pair = true, true
		},
		"--aggregate-load: 1099511627777: must be between 0 and 1099511627776": func(c *MonitorConfig) {
			c.AggregateLoad = maxLoad + 1
		},
		"--aggregate: 1ms: must be between 1s and 24h0m0s": func(c *MonitorConfig) { c.Aggregate = 1e6 },
		"--aggregate: -1s: must be between 1s and 24h0m0s": func(c *MonitorConfig) {
			c.Aggregate = -time.Second
		},
		"--aggregate-subnets-v4: 33: must be between 0 and 32":   func(c *MonitorConfig) { c.IPv4Prefix = 33 },
		"--aggregate-subnets-v4: -2: must be between 0 and 32":   func(c *MonitorConfig) { c.IPv4Prefix = -2 },
		"--aggregate-subnets-v6: 65: must be between 0 and 64":   func(c *MonitorConfig) { c.IPv6Prefix = 65 },
		"--bin-width: 1ns: must be between 1µs and 1h0m0s":       func(c *MonitorConfig) { c.BinWidth = 1 },
		"--max-flows: -5: must be between 1 and 16777216":        func(c *MonitorConfig) { c.MaxFlows = -5 },
		"--max-stamps: 20000000: must be between 1 and 16777216": func(c *MonitorConfig) { c.MaxStamps = 20000000 },
		"--max-queries: -1: must be between 1 and 16777216":      func(c *MonitorConfig) { c.MaxQueries = -1 },
		"--max-prefixes: -1: must be between 1 and 16777216":     func(c *MonitorConfig) { c.MaxPrefixes = -1 },
		"--ring-size: 100: must be between 4096 and 1073741824":  func(c *MonitorConfig) { c.RingBytes = 100 },
	} {
		c := MonitorConfig{Sink: report.Tee{}}
		change(&c)
		c.setDefaults()
		require.EqualError(t, c.validate(), want)
	}
}
