package traffic

import (
	"cmp"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/rtt/internal/wire"
	"sluice/rtt/pcap"
)

var testConfig = Config{
	Seed: 7, Begin: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Length: 10 * time.Second, Day: 24 * time.Hour,
	Flows: 20, Prefixes: 100_000,
}

func TestSameSeedSamePackets(t *testing.T) {
	first, second := slices.Collect(Packets(testConfig)), slices.Collect(Packets(testConfig))
	require.NotEmpty(t, first)
	require.Equal(t, first, second)
	other := testConfig
	other.Seed++
	require.NotEqual(t, first, slices.Collect(Packets(other)))
}

func TestPacketsAreInOrder(t *testing.T) {
	packets := slices.Collect(Packets(testConfig))
	require.True(t, slices.IsSortedFunc(packets, func(a, b pcap.Packet) int { return a.At.Compare(b.At) }))
	require.False(t, packets[0].At.Before(testConfig.Begin))
	require.Less(t, packets[len(packets)-1].At.Sub(testConfig.Begin), testConfig.Length)
}

func TestOnlyTCP(t *testing.T) {
	cfg := testConfig
	cfg.TCP = true
	all := slices.Collect(Packets(cfg))
	require.NotEmpty(t, all)
	for _, p := range all {
		const ethernet, protocol4, protocol6 = 14, 9, 6
		ip := p.Frame[ethernet:]
		protocol := ip[protocol4]
		if ip[0]>>4 == 6 {
			protocol = ip[protocol6]
		}
		require.EqualValues(t, unix.IPPROTO_TCP, protocol)
	}
}

// A cut packet has the headers of the whole packet, checksums included.
func TestHeaders(t *testing.T) {
	for name, ends := range map[string][2]netip.AddrPort{
		"IPv4": {netip.MustParseAddrPort("10.0.0.1:4000"), netip.MustParseAddrPort("198.18.0.1:443")},
		"IPv6": {netip.MustParseAddrPort("[2001:db8::1]:4000"), netip.MustParseAddrPort("[3fff::1]:443")},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := ends[0], ends[1]
			g := newGenerator(testConfig)
			c := &tcp{path: path{server: from, customer: to}}
			s := segment{seq: 1 << 31, value: 77, length: 1001}
			c.send(g, 0, tcpHeaders(from, to), wire.ACK|wire.PSH, s, 99, 55)
			requireBytes(t, g, wire.TCP{
				Seq: 1 << 31, Ack: 99, Flags: wire.ACK | wire.PSH, Timestamps: true, Val: 77, Ecr: 55, Length: 1001,
			}.Between(from, to))

			hidden := g.hidden()
			id := []byte{1, 2, 3, 4, 5, 6, 7, 8}
			q := &quic{path: c.path}
			q.short(g, 0, udpHeaders(from, to, wire.Short(false, id, 0, 0)), true, hidden, 1250)
			requireBytes(t, g, wire.UDP(from, to, wire.Short(true, id, hidden, 1250)))
		})
	}
}

// requireBytes takes the only packet that was sent.
func requireBytes(t *testing.T, g *generator, packet []byte) {
	t.Helper()
	require.Len(t, g.pending, 1)
	e := g.pending.Pop().(event)
	want := wire.Frame(packet)
	require.Equal(t, len(want), e.length)
	require.Equal(t, want, append(e.frame, make([]byte, e.length-len(e.frame))...))
}

func TestEveningIsBusier(t *testing.T) {
	g := newGenerator(testConfig)
	require.InDelta(t, 1+swing, g.load(20*time.Hour), 1e-9)
	require.InDelta(t, 1-swing, g.load(8*time.Hour), 1e-9)
	g.cfg.Day = 24 * time.Minute
	require.InDelta(t, 1+swing, g.load(20*time.Minute), 1e-9, "a day in 24 minutes")
	g.cfg.Begin = g.cfg.Begin.Add(20 * time.Hour)
	require.InDelta(t, 1+swing, g.load(0), 1e-9, "the time of day follows from the begin")
}

// A tenth of the downloads has more than half of the bytes, and a tenth of the prefixes more than half of the flows.
func TestHeavyTails(t *testing.T) {
	g := newGenerator(testConfig)
	var sizes []int
	flows := make(map[uint64]int)
	for range 20_000 {
		sizes = append(sizes, g.size())
		flows[g.zipf.Uint64()]++
	}
	require.Greater(t, shareOfLargest(sizes, len(sizes)/10), 0.5)
	var counts []int
	for _, n := range flows {
		counts = append(counts, n)
	}
	require.Greater(t, shareOfLargest(counts, g.cfg.Prefixes/10), 0.5)
	require.Greater(t, len(counts), 1000, "prefixes")
}

// shareOfLargest returns how much of the sum the n largest values have.
func shareOfLargest(values []int, n int) float64 {
	slices.SortFunc(values, func(a, b int) int { return cmp.Compare(b, a) })
	sum, largest := 0, 0
	for i, v := range values {
		sum += v
		if i < n {
			largest += v
		}
	}
	return float64(largest) / float64(sum)
}

// Prefixes are different ones, and of both families.
func TestPrefixes(t *testing.T) {
	seen := make(map[netip.Prefix]bool)
	for n := range uint64(MaxPrefixes) {
		a, bits := customerAddress(n, 1), 48
		if a.Is4() {
			bits = 24
		}
		p, err := a.Prefix(bits)
		require.NoError(t, err)
		seen[p] = true
	}
	require.Len(t, seen, MaxPrefixes)
}

func TestValidate(t *testing.T) {
	require.NoError(t, testConfig.Validate())
	for flag, change := range map[string]func(*Config){
		"--length":   func(c *Config) { c.Length = 0 },
		"--day":      func(c *Config) { c.Day = 25 * time.Hour },
		"--flows":    func(c *Config) { c.Flows = 0 },
		"--prefixes": func(c *Config) { c.Prefixes = MaxPrefixes + 1 },
	} {
		c := testConfig
		change(&c)
		require.ErrorContains(t, c.Validate(), flag)
	}
}
