package rtt

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestConfigDefaults(t *testing.T) {
	c := Config{Sink: Tee{}}
	c.setDefaults()
	require.NoError(t, c.validate())
	require.True(t, c.TCP)
	require.Equal(t, DefaultRateLimit, c.RateLimit)

	c = Config{Sink: Tee{}, DNS: true, RateLimit: -1}
	c.setDefaults()
	require.False(t, c.TCP, "a chosen protocol is the only one")
	require.Negative(t, c.RateLimit)
}

func TestConfigValidate(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"no sink takes what is measured":                         func(c *Config) { c.Sink = nil },
		`hook "tcp": choose tc, tcx, clsact or xdp`:              func(c *Config) { c.Hook = "tcp" },
		`XDP mode "fast": choose unspecified, native or generic`: func(c *Config) { c.XDPMode = "fast" },
		`RTT type "max": choose min or smoothed`:                 func(c *Config) { c.RTTType = "max" },
		"RTT rate -1: choose 0 to 10000":                         func(c *Config) { c.RTTRate = -1 },
		"RTT rate NaN: choose 0 to 10000":                        func(c *Config) { c.RTTRate = math.NaN() },
		"rate limit 25h0m0s: at most 24h0m0s":                    func(c *Config) { c.RateLimit = 25 * time.Hour },
		"aggregation every 100ms: choose 1s to 24h0m0s":          func(c *Config) { c.Aggregate = 100 * time.Millisecond },
		"aggregation every -1s: choose 1s to 24h0m0s":            func(c *Config) { c.Aggregate = -time.Second },
		"IPv4 prefixes of 33 bits: choose 0 to 32":               func(c *Config) { c.IPv4Prefix = 33 },
		"IPv6 prefixes of 65 bits: choose 0 to 64":               func(c *Config) { c.IPv6Prefix = 65 },
		"bins of 1ns: choose 1µs to 1h":                          func(c *Config) { c.BinWidth = 1 },
		"-5 flows: choose 1 to 16777216":                         func(c *Config) { c.MaxFlows = -5 },
		"20000000 stamps: choose 1 to 16777216":                  func(c *Config) { c.MaxStamps = 20000000 },
		"-1 queries: choose 1 to 16777216":                       func(c *Config) { c.MaxQueries = -1 },
		"-1 prefixes: choose 1 to 16777216":                      func(c *Config) { c.MaxPrefixes = -1 },
		"a ring of 100 bytes: choose 4096 to 1073741824":         func(c *Config) { c.RingBytes = 100 },
	} {
		c := Config{Sink: Tee{}}
		change(&c)
		c.setDefaults()
		require.EqualError(t, c.validate(), want)
	}
}
