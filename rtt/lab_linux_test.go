package rtt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/internal/thorough"
	"sluice/lab"
	"sluice/lab/labtest"
	"sluice/rtt/pcap"
	"sluice/rtt/report"
	"sluice/rtt/report/reporttest"
)

// tap captures the packets at a device of a host, with the kernel's time stamps.
type tap struct {
	t       testing.TB
	fd      int
	stop    chan struct{}
	done    chan struct{}
	packets []pcap.Packet
}

// startTap begins to capture.
func startTap(t testing.TB, h *lab.Host, device string) *tap {
	k := &tap{t: t, stop: make(chan struct{}), done: make(chan struct{})}
	require.NoError(t, h.Do(func() (err error) {
		if k.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		i, err := net.InterfaceByName(device)
		if err != nil {
			return err
		}
		timeout := unix.Timeval{Usec: 20_000}
		return errors.Join(
			unix.SetsockoptInt(k.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
			unix.SetsockoptInt(k.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
			unix.SetsockoptTimeval(k.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout),
			unix.Bind(k.fd, &unix.SockaddrLinklayer{Protocol: 0x0300, Ifindex: i.Index})) // ETH_P_ALL in network order
	}))
	go k.run()
	return k
}

func (k *tap) run() {
	defer close(k.done)
	buf, oob := make([]byte, 65536), make([]byte, 128)
	for {
		n, oobn, _, _, err := unix.Recvmsg(k.fd, buf, oob, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			select {
			case <-k.stop:
				return
			default:
				continue
			}
		}
		if err != nil {
			return
		}
		messages, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil || len(messages) == 0 {
			return
		}
		ts := unixTime(messages[0].Data)
		k.packets = append(k.packets, pcap.Packet{At: ts, Frame: slices.Clone(buf[:min(n, 120)]), Length: n})
	}
}

func unixTime(timespec []byte) time.Time {
	var seconds, nanos int64
	for i := 7; i >= 0; i-- {
		seconds = seconds<<8 | int64(timespec[i])
		nanos = nanos<<8 | int64(timespec[8+i])
	}
	return time.Unix(seconds, nanos)
}

// end returns the captured packets.
func (k *tap) end() []pcap.Packet {
	close(k.stop)
	<-k.done
	require.NoError(k.t, unix.Close(k.fd))
	slices.SortStableFunc(k.packets, func(a, b pcap.Packet) int { return a.At.Compare(b.At) })
	return k.packets
}

// measuring runs a Monitor inside a host until end is called, which returns all that the Sink took. Samples are sorted
// by time: CPUs report theirs in batches.
func measuring(t testing.TB, h *lab.Host, cfg MonitorConfig) (end func() *reporttest.Sink) {
	_, end = monitoring(t, h, cfg)
	return end
}

// monitoring is measuring, and returns the Monitor, too.
func monitoring(t testing.TB, h *lab.Host, cfg MonitorConfig) (m *Monitor, end func() *reporttest.Sink) {
	got := new(reporttest.Sink)
	cfg.Sink = got
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	require.NoError(t, h.Do(func() (err error) {
		m, err = New(cfg)
		return err
	}))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var err error
	wg.Go(func() { err = m.Run(ctx) })
	return m, func() *reporttest.Sink {
		cancel()
		wg.Wait()
		require.NoError(t, err)
		require.NoError(t, m.Close())
		slices.SortStableFunc(got.Samples, func(a, b report.Sample) int { return a.Time.Compare(b.Time) })
		return got
	}
}

// exchange makes the client send requests and the server answer them, both of sizes from one byte to many segments.
func exchange(t testing.TB, client, server *lab.Host, rounds int) {
	at := netip.AddrPortFrom(server.Facing(client).IPv4.Addr(), 5000)
	var l net.Listener
	require.NoError(t, server.Do(func() (err error) {
		l, err = net.Listen("tcp4", at.String())
		return err
	}))
	var wg sync.WaitGroup
	wg.Go(func() {
		c, err := l.Accept()
		require.NoError(t, err)
		defer c.Close()
		serve(t, c)
	})
	var c net.Conn
	require.NoError(t, client.Do(func() (err error) {
		c, err = net.DialTCP("tcp4", nil, net.TCPAddrFromAddrPort(at))
		return err
	}))
	rng := rand.New(rand.NewPCG(1, 1))
	for range rounds {
		request := make([]byte, 5+rng.IntN(60_000))
		copy(request, fmt.Appendf(nil, "%04x", rng.IntN(40_000)))
		request[4] = 0
		_, err := c.Write(append(fmt.Appendf(nil, "%06x", len(request)), request...))
		require.NoError(t, err)
		var size int
		_, err = fmt.Sscanf(string(request[:4]), "%x", &size)
		require.NoError(t, err)
		_, err = io.ReadFull(c, make([]byte, size))
		require.NoError(t, err)
	}
	require.NoError(t, c.Close())
	wg.Wait()
	require.NoError(t, l.Close())
}

// serve reads "LENGTH, SIZE, …" requests and answers each with SIZE bytes.
func serve(t testing.TB, c net.Conn) {
	for {
		var length, size int
		head := make([]byte, 6)
		if _, err := io.ReadFull(c, head); err != nil {
			return // the client has closed
		}
		_, err := fmt.Sscanf(string(head), "%x", &length)
		require.NoError(t, err)
		request := make([]byte, length)
		_, err = io.ReadFull(c, request)
		require.NoError(t, err)
		_, err = fmt.Sscanf(string(request[:4]), "%x", &size)
		require.NoError(t, err)
		_, err = c.Write(make([]byte, size))
		require.NoError(t, err)
	}
}

// ping sends echoes, one every 20 ms, and returns the RTTs that it saw.
func ping(t testing.TB, from *lab.Host, to netip.Addr, count int) (rtts []time.Duration) {
	if _, err := exec.LookPath("ping"); err != nil {
		if os.Getenv("SLUICE_REQUIRE_KERNEL") != "" {
			t.Fatal("needs ping (package iputils-ping)")
		}
		t.Skip("needs ping (package iputils-ping)")
	}
	cmd := exec.Command("ping", "-i", "0.02", "-c", fmt.Sprint(count), "-W", "2", to.String())
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := from.Run(cmd); err != nil {
		_, lost := errors.AsType[*exec.ExitError](err)
		require.True(t, lost, "%v", err)
	}
	for _, match := range regexp.MustCompile(`time=([0-9.]+) ms`).FindAllStringSubmatch(out.String(), -1) {
		d, err := time.ParseDuration(match[1] + "ms")
		require.NoError(t, err)
		rtts = append(rtts, d)
	}
	return rtts
}

var paths = map[string]struct {
	conditions lab.Conditions
	rounds     int
}{
	"no delay":            {lab.Conditions{}, 100},
	"10 ms each way":      {lab.Conditions{Delay: 10 * time.Millisecond}, 40},
	"100 ms each way":     {lab.Conditions{Delay: 100 * time.Millisecond}, 8},
	"loss and reordering": {lab.Conditions{Delay: 10 * time.Millisecond, Loss: 0.01, Reorder: 0.02}, 40},
}

// TestAgainstReference compares RTTs with an independent reference, computed from a capture of the same packets. Of the
// paths that only delay, make test has one.
func TestAgainstReference(t *testing.T) {
	for name, path := range paths {
		t.Run(name, func(t *testing.T) {
			if path.conditions.Delay > 0 && path.conditions.Loss == 0 {
				thorough.Only(t)
			}
			l := labtest.New(t, lab.Topology{Uplink: lab.Symmetric(path.conditions), Seed: 7})
			client, server := l.Publisher, l.Relay
			address := server.Facing(client).IPv4.Addr()
			cfg := MonitorConfig{TCP: true, ICMP: true, RateLimit: -1, IncludeLocal: true}
			var pinged []time.Duration
			got, packets := capturing(t, client, cfg, func() {
				exchange(t, client, server, path.rounds)
				pinged = ping(t, client, address, 20)
			})
			requireEchoes(t, got, pinged)
			requireReference(t, "TCP", address, cfg, got, packets, referenceTCP(packets))
			requireReference(t, "ICMP", address, cfg, got, packets, referenceEcho(packets))
		})
	}
}

// Without timestamps, RTTs come from sequence numbers, with Karn's rule.
func TestAgainstReferenceWithoutTimestamps(t *testing.T) {
	for _, name := range []string{"10 ms each way", "loss and reordering"} {
		t.Run(name, func(t *testing.T) {
			path := paths[name]
			if path.conditions.Loss == 0 {
				thorough.Only(t)
			}
			l := labtest.New(t, lab.Topology{Uplink: lab.Symmetric(path.conditions), Seed: 7})
			client, server := l.Publisher, l.Relay
			require.NoError(t, client.Do(func() error {
				return os.WriteFile("/proc/sys/net/ipv4/tcp_timestamps", []byte("0"), 0o644)
			}))
			cfg := MonitorConfig{TCP: true, RateLimit: -1, IncludeLocal: true, IncludeSYN: true}
			got, packets := capturing(t, client, cfg, func() { exchange(t, client, server, path.rounds) })
			for _, s := range got {
				require.Equal(t, report.MethodSequence, s.Method)
			}
			address := server.Facing(client).IPv4.Addr()
			requireReference(t, "TCP", address, cfg, got, packets, referenceSequence(packets))
		})
	}
}

// capturing measures and captures the packets at a host's eth0 while traffic runs.
func capturing(t *testing.T, h *lab.Host, cfg MonitorConfig, traffic func()) ([]report.Sample, []pcap.Packet) {
	capture := startTap(t, h, "eth0")
	cfg.Interfaces = []string{"eth0"}
	end := measuring(t, h, cfg)
	traffic()
	return end().Samples, capture.end()
}

// requireEchoes compares the number of echoes with ping's own report.
func requireEchoes(t *testing.T, got []report.Sample, pinged []time.Duration) {
	t.Helper()
	var echoes []time.Duration
	for _, s := range got {
		if s.Method == report.MethodEcho {
			echoes = append(echoes, s.RTT)
		}
	}
	require.Len(t, echoes, len(pinged))
	t.Logf("ping: %v in the median, measured: %v", median(pinged), median(echoes))
}

func median(list []time.Duration) time.Duration {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// requireReference compares samples of a protocol with the reference. The second comparison is for make check:
//
//   - The kernel programs measure the capture once more, with the times in it. Each RTT equals the reference's.
//   - There are as many live samples as the reference has RTTs, but for a few: where packets cross on two CPUs, the
//     program may see them in another order than the capture. The capture times an arriving packet before the program
//     sees it, and a leaving one after. The live RTT of the remote host is therefore at least the reference's,
//     and the live RTT of this host at most.
func requireReference(
	t *testing.T, protocol string, remote netip.Addr, cfg MonitorConfig,
	live []report.Sample, packets []pcap.Packet, want []refSample,
) {
	t.Helper()
	require.NotEmpty(t, want, protocol)
	var again reporttest.Sink
	cfg.Sink = &again
	mustReplay(t, cfg, captureFile(t, packets...))
	reference, replayed := make(map[netip.Addr][]time.Duration), rttsBySource(protocol, again.Samples)
	for _, w := range want {
		reference[w.source] = append(reference[w.source], w.rtt)
	}
	require.Equal(t, reference, replayed, "%s: RTTs in the capture, by the host that replies", protocol)
	if !thorough.Set() {
		require.NotEmpty(t, live, protocol)
		return
	}
	measured := rttsBySource(protocol, live)
	require.Len(t, measured, len(reference), protocol)
	for source, rtts := range reference {
		crossing := float64(1 + len(rtts)/50)
		require.InDelta(t, len(rtts), len(measured[source]), crossing, "%s: live RTTs of %v", protocol, source)
		t.Logf("%s: %d replies of %v, %v in the median, %v in the reference",
			protocol, len(rtts), source, median(measured[source]), median(rtts))
		if source == remote {
			require.GreaterOrEqual(t, median(measured[source]), median(rtts), "%s: replies of %v", protocol, source)
		} else {
			require.LessOrEqual(t, median(measured[source]), median(rtts), "%s: replies of %v", protocol, source)
		}
	}
}

// rttsBySource lists the RTTs of a protocol by the host that replies.
func rttsBySource(protocol string, samples []report.Sample) map[netip.Addr][]time.Duration {
	rtts := make(map[netip.Addr][]time.Duration)
	for _, s := range samples {
		if s.Protocol == protocol {
			rtts[s.Source.Addr()] = append(rtts[s.Source.Addr()], s.RTT)
		}
	}
	return rtts
}
