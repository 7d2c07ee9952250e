package command

import (
	_ "embed"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"sluice/rtt"
	"sluice/rtt/attach"
	"sluice/rtt/output"
)

// ePPingOptions is ePPing's list of options (commit 659ce29, --help).
//
//go:embed testdata/epping.help
var ePPingOptions string

// ePPingMeanings are arguments that ePPing understands, by option, and their meanings here. An argument that begins
// with "bad " is refused.
var ePPingMeanings = map[string]map[string]func(*rttFlags, *rtt.MonitorConfig){
	"help":      nil, // of all commands
	"interface": {"eth7": func(_ *rttFlags, c *rtt.MonitorConfig) { c.Interfaces = []string{"eth7"} }},
	"rate-limit": {
		"0":      func(_ *rttFlags, c *rtt.MonitorConfig) { c.RateLimit = -1 },
		"2.5":    func(_ *rttFlags, c *rtt.MonitorConfig) { c.RateLimit = 2500 * time.Microsecond },
		"bad -1": nil, "bad 1s": nil,
	},
	"rtt-rate": {
		"0":   func(*rttFlags, *rtt.MonitorConfig) {},
		"1.5": func(_ *rttFlags, c *rtt.MonitorConfig) { c.RTTRate = 1.5 },
	},
	"rtt-type": {
		"min":      func(*rttFlags, *rtt.MonitorConfig) {},
		"smoothed": func(_ *rttFlags, c *rtt.MonitorConfig) { c.RTTType = rtt.RTTSmoothed },
	},
	"force": {"": func(*rttFlags, *rtt.MonitorConfig) {}},
	"cleanup-interval": {
		"0":      func(_ *rttFlags, c *rtt.MonitorConfig) { c.CleanupInterval = -1 },
		"0.5":    func(_ *rttFlags, c *rtt.MonitorConfig) { c.CleanupInterval = 500 * time.Millisecond },
		"bad -1": nil,
	},
	"format": {
		"standard": func(*rttFlags, *rtt.MonitorConfig) {},
		"json":     func(f *rttFlags, _ *rtt.MonitorConfig) { f.format = string(output.JSON) },
		"jsonl":    func(f *rttFlags, _ *rtt.MonitorConfig) { f.format = string(output.JSONL) },
		"ppviz":    func(f *rttFlags, _ *rtt.MonitorConfig) { f.format = string(output.PPViz) },
	},
	"ingress-hook": {
		"tc":  func(*rttFlags, *rtt.MonitorConfig) {},
		"xdp": func(_ *rttFlags, c *rtt.MonitorConfig) { c.Hook = attach.HookXDP },
	},
	"xdp-mode": {
		"unspecified": func(_ *rttFlags, c *rtt.MonitorConfig) { c.XDPMode = attach.XDPUnspecified },
		"native":      func(*rttFlags, *rtt.MonitorConfig) {},
		"generic":     func(_ *rttFlags, c *rtt.MonitorConfig) { c.XDPMode = attach.XDPGeneric },
	},
	"tcp":           {"": func(_ *rttFlags, c *rtt.MonitorConfig) { c.TCP = true }},
	"icmp":          {"": func(_ *rttFlags, c *rtt.MonitorConfig) { c.ICMP = true }},
	"include-local": {"": func(_ *rttFlags, c *rtt.MonitorConfig) { c.IncludeLocal = true }},
	"include-SYN":   {"": func(_ *rttFlags, c *rtt.MonitorConfig) { c.IncludeSYN = true }},
	"aggregate":     {"10": func(f *rttFlags, _ *rtt.MonitorConfig) { f.aggregate = 10 }},
	"aggregate-subnets-v4": {
		"16": func(_ *rttFlags, c *rtt.MonitorConfig) { c.IPv4Prefix = 16 },
		"0":  func(_ *rttFlags, c *rtt.MonitorConfig) { c.IPv4Prefix = rtt.WholeFamily },
	},
	"aggregate-subnets-v6": {
		"32": func(_ *rttFlags, c *rtt.MonitorConfig) { c.IPv6Prefix = 32 },
		"0":  func(_ *rttFlags, c *rtt.MonitorConfig) { c.IPv6Prefix = rtt.WholeFamily },
	},
	"aggregate-reverse": {"": func(_ *rttFlags, c *rtt.MonitorConfig) { c.AggregateReverse = true }},
	"aggregate-timeout": {
		"0":      func(_ *rttFlags, c *rtt.MonitorConfig) { c.AggregateTimeout = -1 },
		"60":     func(_ *rttFlags, c *rtt.MonitorConfig) { c.AggregateTimeout = time.Minute },
		"bad -1": nil,
	},
	"write": {"out": func(f *rttFlags, _ *rtt.MonitorConfig) { f.file = "out" }},
}

// TestOptionsOfEPPing shows that each option of ePPing is understood in ePPing's spellings, with its meaning.
func TestOptionsOfEPPing(t *testing.T) {
	t.Parallel()
	var listed []string
	for line := range strings.Lines(ePPingOptions) {
		fields := strings.Fields(line)
		long := strings.TrimPrefix(fields[0], "--")
		listed = append(listed, long)
		spellings := []string{"--" + long}
		if len(fields) > 1 {
			spellings = append(spellings, fields[len(fields)-1])
		}
		meanings, ok := ePPingMeanings[long]
		require.True(t, ok, "the test has nothing for --%s", long)
		for argument, mean := range meanings {
			for _, spelling := range spellings {
				requireMeaning(t, spelling, argument, mean)
			}
		}
	}
	require.Len(t, listed, len(ePPingMeanings))
}

// TestDefaultsOfEPPing shows that defaults are ePPing's.
func TestDefaultsOfEPPing(t *testing.T) {
	t.Parallel()
	f, c, err := parseRTT(nil)
	require.NoError(t, err)
	require.Equal(t, string(output.Standard), f.format)
	require.Equal(t, 100*time.Millisecond, c.RateLimit)
	require.Zero(t, c.RTTRate)
	require.Equal(t, rtt.RTTMin, c.RTTType)
	require.Equal(t, time.Second, c.CleanupInterval)
	require.Equal(t, attach.HookTC, c.Hook)
	require.Equal(t, attach.XDPNative, c.XDPMode)
	require.Equal(t, 24, c.IPv4Prefix)
	require.Equal(t, 48, c.IPv6Prefix)
	require.Equal(t, 30*time.Second, c.AggregateTimeout)
}

func requireMeaning(t *testing.T, spelling, argument string, mean func(*rttFlags, *rtt.MonitorConfig)) {
	t.Helper()
	wantFlags, want, err := parseRTT(nil)
	require.NoError(t, err)
	value, bad := strings.CutPrefix(argument, "bad ")
	args := []string{spelling}
	if value != "" {
		args = append(args, value)
	}
	gotFlags, got, err := parseRTT(args)
	if bad {
		require.Error(t, err, "%q", args)
		return
	}
	require.NoError(t, err, "%q", args)
	mean(wantFlags, &want)
	require.Equal(t, want, got, "%q", args)
	require.Equal(t, wantFlags.format, gotFlags.format, "%q", args)
	require.Equal(t, wantFlags.file, gotFlags.file, "%q", args)
	require.Equal(t, wantFlags.aggregate, gotFlags.aggregate, "%q", args)
}

// parseRTT returns the flags and the configuration that arguments of sluice-rtt yield.
func parseRTT(args []string) (*rttFlags, rtt.MonitorConfig, error) {
	f := new(rttFlags)
	flags := pflag.NewFlagSet("rtt", pflag.ContinueOnError)
	f.register(flags)
	if err := flags.Parse(args); err != nil {
		return f, rtt.MonitorConfig{}, err
	}
	if err := f.measureFlags.check(); err != nil {
		return f, rtt.MonitorConfig{}, err
	}
	cfg, err := f.config()
	return f, cfg, err
}
