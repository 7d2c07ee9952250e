package pcap

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
	"sluice/rtt/internal/wire"
)

// pcapOf writes packets as a pcap file with nanoseconds.
func pcapOf(t testing.TB, link linkType, snaplen uint32, packets ...Packet) []byte {
	var b bytes.Buffer
	w := pcapgo.NewWriterNanos(&b)
	require.NoError(t, w.WriteFileHeader(snaplen, layers.LinkType(link)))
	for _, p := range packets {
		data := p.Frame[:min(len(p.Frame), int(snaplen))]
		require.NoError(t, w.WritePacket(gopacket.CaptureInfo{
			Timestamp: p.At, CaptureLength: len(data), Length: p.Length,
		}, data))
	}
	return b.Bytes()
}

// pcapngOf writes the packets as a pcapng file, each on an interface of its own type.
func pcapngOf(t testing.TB, links []linkType, packets ...Packet) []byte {
	var b bytes.Buffer
	w, err := pcapgo.NewNgWriter(&b, layers.LinkType(links[0]))
	require.NoError(t, err)
	for i, p := range packets {
		if i > 0 {
			_, err := w.AddInterface(pcapgo.NgInterface{
				Name: "other", LinkType: layers.LinkType(links[i]), SnapLength: 65535, OS: "linux",
			})
			require.NoError(t, err)
		}
		ci := gopacket.CaptureInfo{
			Timestamp: p.At, CaptureLength: len(p.Frame), Length: len(p.Frame), InterfaceIndex: i,
		}
		require.NoError(t, w.WritePacket(ci, p.Frame))
	}
	require.NoError(t, w.Flush())
	return b.Bytes()
}

// rest reads all packets.
func rest(t testing.TB, file []byte) (packets []Packet, unknown int) {
	c, err := NewReader(bytes.NewReader(file))
	require.NoError(t, err)
	for {
		p, err := c.Read()
		if _, ok := errors.AsType[*LinkError](err); ok {
			unknown++
			continue
		}
		if errors.Is(err, io.EOF) {
			return packets, unknown
		}
		require.NoError(t, err)
		p.Frame = bytes.Clone(p.Frame)
		packets = append(packets, p)
	}
}

var (
	packet4 = wire.Echo{Length: 10}.Between(netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.1"))
	packet6 = wire.Echo{Length: 10}.Between(netip.MustParseAddr("2001:db8:1::1"), netip.MustParseAddr("2001:db8:2::1"))
)

// Each kind of link, as it is on the wire, becomes the same Ethernet frame.
func TestCaptureLinks(t *testing.T) {
	at := time.Unix(1000, 123456789).UTC()
	sll := append(make([]byte, 14), 0x86, 0xdd)
	for name, test := range map[string]struct {
		link   linkType
		data   []byte
		packet []byte
	}{
		"raw IPv4":     {linkRaw, packet4, packet4},
		"raw IPv6":     {linkRaw, packet6, packet6},
		"raw, as BSD":  {linkRawBSD, packet4, packet4},
		"raw, OpenBSD": {linkRawOpenBSD, packet4, packet4},
		"IPv4 only":    {linkIPv4, packet4, packet4},
		"IPv6 only":    {linkIPv6, packet6, packet6},
		"BSD loopback": {linkNull, append([]byte{2, 0, 0, 0}, packet4...), packet4},
		"loopback":     {linkLoop, append([]byte{0, 0, 0, 24}, packet6...), packet6},
		"Linux cooked": {linkSLL, append(sll, packet6...), packet6},
	} {
		t.Run(name, func(t *testing.T) {
			packets, unknown := rest(t, pcapOf(t, test.link, 65535, Packet{at, test.data, len(test.data)}))
			require.Zero(t, unknown)
			want := append(make([]byte, 12), wire.Frame(test.packet)[12:]...)
			require.Equal(t, []Packet{{at, want, len(want)}}, packets)
		})
	}
}

func TestCaptureLengths(t *testing.T) {
	at := time.Unix(1000, 0).UTC()
	frame := wire.Frame(packet4)
	packets, _ := rest(t, pcapOf(t, linkEthernet, 40, Packet{at, frame, 1500}))
	require.Equal(t, []Packet{{at, frame[:40], 1500}}, packets, "cut by the snapshot length")
	packets, _ = rest(t, pcapOf(t, linkRaw, 40, Packet{at, packet4, 1500}))
	require.Equal(t, 1514, packets[0].Length)
}

func TestCapturePcapng(t *testing.T) {
	at := time.Unix(1000, 5000).UTC()
	packets, unknown := rest(t, pcapngOf(t, []linkType{linkEthernet, linkRaw, 105},
		Packet{At: at, Frame: wire.Frame(packet4)}, Packet{
			At: at.Add(time.Second), Frame: packet6,
		}, Packet{At: at, Frame: packet4}))
	require.Equal(t, 1, unknown, "Wi-Fi")
	require.Equal(t, wire.Frame(packet4), packets[0].Frame)
	require.Equal(t, wire.Frame(packet6)[12:], packets[1].Frame[12:])
	require.Equal(t, time.Second, packets[1].At.Sub(packets[0].At))
}

func TestCaptureLinuxCooked2(t *testing.T) {
	header := append([]byte{0x86, 0xdd}, make([]byte, sll2Header-2)...)
	frame, removed, ok := linkSLL2.ethernet(append(header, packet6...))
	require.True(t, ok)
	require.Equal(t, sll2Header-etherHeader, removed)
	require.Equal(t, wire.Frame(packet6)[12:], frame[12:])
}

// pcapng resolutions of 10⁻ⁿ and 2⁻ⁿ seconds.
func TestPcapngTime(t *testing.T) {
	for _, test := range []struct {
		resolution byte
		offset     int64
		ticks      uint64
		want       time.Time
	}{
		{6, 0, 1_000_000_123_456, time.Unix(1_000_000, 123_456_000)},
		{9, 0, 1_000_000_123_456_789, time.Unix(1_000_000, 123_456_789)},
		{12, 0, 1_000_000_123_456_789_999, time.Unix(1_000_000, 123_456_789)},
		{0, 7, 1_000, time.Unix(1_007, 0)},
		{0x80 | 10, 0, 5<<10 | 1<<9, time.Unix(5, 500_000_000)},
		{0xff, 0, 1 << 62, time.Unix(0, 500_000_000)},
		{200 & 0x7f, 0, 1 << 63, time.Unix(0, 922_337_203)}, // as if 10⁻¹⁹
	} {
		i := pcapngInterface{resolution: test.resolution, offset: test.offset}
		require.Equal(t, test.want.UTC(), i.time(test.ticks), "%#x", test.resolution)
	}
}

func TestCaptureRefuses(t *testing.T) {
	good := string(pcapOf(t, linkEthernet, 100, Packet{time.Unix(1, 0), make([]byte, 60), 60}))
	section := string(pcapngOf(t, []linkType{linkEthernet}, Packet{At: time.Unix(1, 0), Frame: make([]byte, 60)}))
	huge := good[:24+8] + "\xff\xff\xff\x7f" + good[24+12:]
	for want, file := range map[string]string{
		"read capture: unexpected EOF":                                 "abc",
		"read capture: neither pcap, nor pcapng, nor ERF":              "main() {} and so on and on",
		"a packet of 2147483647 bytes: at most 262144 can be captured": huge,
		"a section of unknown byte order":                              section[:8] + "zzzz" + section[12:],
		"a block of 10 bytes":                                          section[:4] + "\x0a\x00\x00\x00" + section[8:],
		"a block of 4294967292 bytes":                                  section[:4] + "\xfc\xff\xff\xff" + section[8:],
		"unexpected EOF":                                               good[:len(good)-1],
	} {
		require.EqualError(t, readError([]byte(file)), want)
	}
}

// readError reads all packets, and returns the error at the end.
func readError(file []byte) error {
	c, err := NewReader(bytes.NewReader(file))
	for err == nil {
		_, err = c.Read()
	}
	return err
}

// waits is the end of a pipe into which nothing more has been written: it counts how often a reader would wait.
type waits struct{ times int }

func (w *waits) Read([]byte) (int, error) {
	w.times++
	return 0, io.EOF
}

// TestPipe reads each packet when it has been written, as from a tcpdump that runs.
func TestPipe(t *testing.T) {
	at := time.Unix(1000, 0).UTC()
	packet := Packet{at, wire.Frame(packet4), len(wire.Frame(packet4))}
	for name, file := range map[string][]byte{
		"pcap":   pcapOf(t, linkEthernet, 100, packet),
		"pcapng": pcapngOf(t, []linkType{linkEthernet}, packet),
	} {
		t.Run(name, func(t *testing.T) {
			more := &waits{}
			c, err := NewReader(io.MultiReader(bytes.NewReader(file), more))
			require.NoError(t, err)
			got, err := c.Read()
			require.NoError(t, err)
			require.Equal(t, packet, got)
			require.Zero(t, more.times)
		})
	}
}

// Whatever a file holds, reading it ends with packets or an error.
func FuzzCapture(f *testing.F) {
	at := time.Unix(1000, 0)
	f.Add(pcapOf(f, linkEthernet, 100, Packet{at, wire.Frame(packet4), 60}))
	f.Add(pcapOf(f, linkNull, 100, Packet{at, []byte{2}, 1}))
	f.Add(pcapOf(f, linkSLL, 100, Packet{at, make([]byte, 15), 15}))
	f.Add(pcapngOf(f, []linkType{linkEthernet, linkRaw}, Packet{
		At: at, Frame: wire.Frame(packet6),
	}, Packet{At: at, Frame: packet6}))
	f.Add(append(erfFrame(2, at, 2, wire.Frame(packet4)), erfOf(22, at, 0, len(packet4), packet4)...))
	f.Fuzz(func(t *testing.T, file []byte) {
		defer testlimit.Start(t, len(file), 1000)()
		c, err := NewReader(bytes.NewReader(file))
		for err == nil {
			var p Packet
			if p, err = c.Read(); err == nil {
				require.GreaterOrEqual(t, p.Length, len(p.Frame))
			}
		}
	})
}
