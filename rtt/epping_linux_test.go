package rtt

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/rtt/flood"
	"sluice/rtt/internal/wire"
	"sluice/rtt/output"
	"sluice/rtt/pcap"
)

// ePPingPackets writes packets that ePPing and the monitor have to count alike. The directions differ in the number and
// the lengths of packets.
func ePPingPackets(s *script) {
	plain := netip.AddrPortFrom(alice.Addr(), 40001)
	s.ip(0, wire.TCP{Seq: 99, Flags: wire.SYN, Timestamps: true, Val: 10}.Between(alice, bob))
	s.ip(20, wire.TCP{
		Seq: 499, Ack: 100, Flags: wire.SYN | wire.ACK, Timestamps: true, Val: 70, Ecr: 10,
	}.Between(bob, alice))
	s.tcp(40, alice, bob, wire.TCP{Seq: 100, Ack: 500, Timestamps: true, Val: 20, Ecr: 70})
	for n := range uint32(5) {
		at := 60 + 40*float64(n)
		s.data(at, 100+1000*n, 30+n)
		s.ack(at+15, 1100+1000*n, 30+n)
	}
	for n := range uint32(3) {
		s.tcp(300+40*float64(n), plain, bob, wire.TCP{Seq: 100 + 1000*n, Ack: 1, Length: 1000})
	}
	s.tcp(420, bob, plain, wire.TCP{Seq: 1, Ack: 100}) // of nothing new: ePPing has no RTTs without timestamps
	for n := range uint16(4) {
		s.echo(440+20*float64(n), n, "198.51.101.1", 10)
		s.echo(450+20*float64(n), n, "2001:db8:2::1", 5)
	}
	for range 3 {
		s.ip(540, wire.UDP(alice6, bob6, make([]byte, 300)))
	}
	s.ip(550, wire.UDP(bob6, alice6, make([]byte, 900)))
	s.ip(560, wire.IP{From: alice.Addr(), To: bob.Addr(), Protocol: 132, ECN: 3}.Packet(make([]byte, 20)))
	s.ip(570, wire.IP{From: alice.Addr(), To: bob.Addr(), Protocol: 17, ECN: 2}.Packet(make([]byte, 20)))
	s.ip(580, wire.IP{From: bob.Addr(), To: alice.Addr(), Protocol: 17, ECN: 1}.Packet(make([]byte, 20)))
}

// counted has a monitor's counts of ePPingPackets: numbers by prefix and name, and of all prefixes for "".
type counted map[string]map[string]uint64

func (c counted) add(prefix, name string, n uint64) {
	if c[prefix] == nil {
		c[prefix] = make(map[string]uint64)
	}
	if name = otherProtocol(name); n > 0 { // formats leave out zeros, or do not
		c[prefix][name] += n
	}
}

// otherProtocol renames ePPing's counts of a protocol without a name: the monitor counts all of these as "other".
func otherProtocol(name string) string {
	if protocol, unit, _ := strings.Cut(name, " "); protocol != "" && protocol[0] >= '0' && protocol[0] <= '9' {
		return "other " + unit
	}
	return name
}

var (
	linePrefix = regexp.MustCompile(`: (\S+/\d+) -> (.*)`)
	lineTotals = regexp.MustCompile(`^[\d:.]+: (\w+=\(.*)`)
	lineGroup  = regexp.MustCompile(`(\w+)=\(([^)]*)\)`)
	lineNumber = regexp.MustCompile(`([\w-]+)=(\d+)(?:,|$)`) // durations have a unit
)

// readStandard sums up the intervals of the standard format.
func (c counted) readStandard(text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if m := linePrefix.FindStringSubmatch(line); m != nil {
			for _, n := range lineNumber.FindAllStringSubmatch(m[2], -1) {
				c.addText(m[1], n[1], n[2])
			}
		} else if m := lineTotals.FindStringSubmatch(line); m != nil {
			for _, group := range lineGroup.FindAllStringSubmatch(m[1], -1) {
				for _, n := range lineNumber.FindAllStringSubmatch(group[2], -1) {
					c.addText("", group[1]+" "+n[1], n[2])
				}
			}
		}
	}
}

func (c counted) addText(prefix, name, number string) {
	n, _ := strconv.ParseUint(number, 10, 64) // it consists of digits
	c.add(prefix, name, n)
}

// readJSON sums up the intervals of the JSON formats.
func (c counted) readJSON(records []json.RawMessage) error {
	type traffic map[string]map[string]uint64
	for _, text := range records {
		var r struct {
			Prefix    string            `json:"ip_prefix"`
			Received  traffic           `json:"rx_stats"`
			Sent      traffic           `json:"tx_stats"`
			RTTs      uint64            `json:"count_rtt"`
			Protocols traffic           `json:"protocol_counters"`
			ECN       map[string]uint64 `json:"ecn_counters"`
		}
		if err := json.Unmarshal(text, &r); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		for name, part := range map[string]traffic{"rx ": r.Received, "tx ": r.Sent, "": r.Protocols} {
			for kind, numbers := range part {
				for unit, n := range numbers {
					c.add(r.Prefix, name+kind+" "+unit, n)
				}
			}
		}
		for codepoint, n := range r.ECN {
			c.add(r.Prefix, "ECN "+codepoint, n)
		}
		if r.Prefix != "" {
			c.add(r.Prefix, "RTTs", r.RTTs)
		}
	}
	return nil
}

// countedIn returns the counts in the output of a monitor.
func countedIn(t *testing.T, format output.Format, text string) counted {
	t.Helper()
	c := make(counted)
	var records []json.RawMessage
	switch format {
	case output.Standard:
		c.readStandard(text)
	case output.JSON:
		require.NoError(t, json.Unmarshal([]byte(text), &records), text)
	case output.JSONL:
		for line := range strings.Lines(text) {
			records = append(records, json.RawMessage(line))
		}
	}
	require.NoError(t, c.readJSON(records))
	delete(c[""], "other bytes") // ePPing does not count them
	maps.DeleteFunc(c, func(_ string, numbers map[string]uint64) bool { return len(numbers) == 0 })
	return c
}

// ePPingFormats are the formats in which aggregates can be written.
var ePPingFormats = []output.Format{output.Standard, output.JSON, output.JSONL}

const (
	ePPingOutput  = "testdata/epping.txtar"
	ePPingOptions = "-T -C -l -s -r 0 -a 1" // without -s, it counts SYNs as 0.0.0.0/0
)

// TestBesideEPPing compares the monitor's counts of each prefix with ePPing's of the same packets, in all formats. With
// SLUICE_EPPING, the path of ePPing, and -update, it records ePPing's output again.
func TestBesideEPPing(t *testing.T) {
	t.Parallel()
	requireKernel(t)
	var s script
	ePPingPackets(&s)
	slices.SortStableFunc(s.packets, func(a, b pcap.Packet) int { return a.At.Compare(b.At) })
	if program := os.Getenv("SLUICE_EPPING"); program != "" {
		besideEPPing(t, program, s.packets)
	}
	recorded, err := txtar.ParseFile(ePPingOutput)
	require.NoError(t, err)
	for _, f := range recorded.Files {
		t.Run(f.Name, func(t *testing.T) {
			name, reverse := strings.CutSuffix(f.Name, " --aggregate-reverse")
			format := output.Format(strings.TrimPrefix(name, "-F "))
			want := countedIn(t, format, string(f.Data))
			require.Len(t, want, 6, "five prefixes, and all")
			var out bytes.Buffer
			w, err := output.New(format, func() (io.WriteCloser, error) { return nopCloser{&out}, nil })
			require.NoError(t, err)
			mustReplay(t, MonitorConfig{
				TCP: true, ICMP: true, IncludeLocal: true, IncludeSYN: true, RateLimit: -1, Aggregate: time.Second,
				AggregateReverse: reverse, BinWidth: 4 * time.Millisecond, Sink: w,
			}, captureFile(t, s.packets...))
			require.NoError(t, w.Close())
			require.Equal(t, want, countedIn(t, format, out.String()))
		})
	}
}

// besideEPPing has ePPing count the packets on a device, and compares the result with the recorded one.
func besideEPPing(t *testing.T, program string, packets []pcap.Packet) {
	comment := "What ePPing (commit 659ce29) writes in TestBesideEPPing, with " + ePPingOptions + ".\n"
	archive := txtar.Archive{Comment: []byte(comment)}
	for _, format := range ePPingFormats {
		for _, reverse := range []string{"", " --aggregate-reverse"} {
			name := fmt.Sprintf("-F %s%s", format, reverse)
			var text []byte
			var wg sync.WaitGroup
			wg.Go(func() { text = runEPPing(t, program, name, packets) })
			wg.Wait()
			archive.Files = append(archive.Files, txtar.File{Name: name, Data: text})
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(ePPingOutput, txtar.Format(&archive), 0o644))
	}
	recorded, err := txtar.ParseFile(ePPingOutput)
	require.NoError(t, err)
	for i, f := range archive.Files {
		format := ePPingFormats[i/2]
		want := countedIn(t, format, string(recorded.Files[i].Data))
		require.Equal(t, want, countedIn(t, format, string(f.Data)), f.Name)
	}
}

// runEPPing runs ePPing on one of two devices that are joined, in a network namespace of its own, and sends the packets
// from alice in at it and all others out of it. It returns ePPing's output.
func runEPPing(t *testing.T, program, options string, packets []pcap.Packet) []byte {
	runtime.LockOSThread() // the thread, and its network namespace, ends with the goroutine
	require.NoError(t, unix.Unshare(unix.CLONE_NEWNET))
	require.NoError(t, os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0o644))
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "watched"
	require.NoError(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "other"}))
	setUp(t, "watched")
	setUp(t, "other")
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer file.Close()
	cmd := exec.Command(program, append(strings.Fields(ePPingOptions+" -i watched"), strings.Fields(options)...)...)
	cmd.Dir, cmd.Stdout = filepath.Dir(program), file // it looks for its object file there
	require.NoError(t, cmd.Start())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, flood.AwaitMonitor(ctx, "watched"))
	out, in := sendingSocket(t, "watched"), sendingSocket(t, "other")
	for _, p := range packets {
		to := out
		if isFrom(p.Frame, alice.Addr()) || isFrom(p.Frame, alice6.Addr()) {
			to = in
		}
		require.NoError(t, unix.Send(to, p.Frame, 0))
		time.Sleep(5 * time.Millisecond) // one that arrives waits for the softirq
	}
	time.Sleep(2200 * time.Millisecond) // two intervals: it reports only whole ones
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait())
	text, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	return text
}

// isFrom reports whether the packet in an Ethernet frame has this source address.
func isFrom(frame []byte, source netip.Addr) bool {
	at := 14 + 12
	if source.Is6() {
		at = 14 + 8
	}
	return bytes.HasPrefix(frame[at:], source.AsSlice())
}

func setUp(t *testing.T, device string) {
	link, err := netlink.LinkByName(device)
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetUp(link))
}

// sendingSocket returns a socket that sends frames from a device.
func sendingSocket(t *testing.T, device string) int {
	link, err := netlink.LinkByName(device)
	require.NoError(t, err)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: link.Attrs().Index}))
	return fd
}
