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

	"sluice/lab"
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

// capturing measures and captures the packets at a host's eth0 while traffic runs.
func capturing(t *testing.T, h *lab.Host, cfg MonitorConfig, traffic func()) ([]report.Sample, []pcap.Packet) {
	capture := startTap(t, h, "eth0")
	cfg.Interfaces = []string{"eth0"}
	end := measuring(t, h, cfg)
	traffic()
	return end().Samples, capture.end()
}

func median(list []time.Duration) time.Duration {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}
