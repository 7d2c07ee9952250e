package lab_test

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/lab"
	"sluice/lab/labtest"
	"sluice/lab/measure"
)

// forwarder is the simplest relay: packets to its address leave for each target as they are. It ends with the test.
func forwarder(t testing.TB, l *lab.Lab) netip.AddrPort {
	t.Helper()
	in, addr := listen(t, l.Relay, l.Relay.Device("up").IPv4.Addr())
	out, err := l.Relay.ListenUDP(netip.AddrPort{})
	require.NoError(t, err)
	t.Cleanup(func() { out.Close() })
	go func() {
		buffer := make([]byte, 2048)
		for {
			n, err := in.Read(buffer)
			if err != nil {
				return // closed by the end of the test
			}
			for _, s := range l.Subscribers {
				out.WriteToUDPAddrPort(buffer[:n], netip.AddrPortFrom(s.Devices[0].IPv4.Addr(), 4443))
			}
		}
	}()
	return addr
}

const framePackets = 12 // 3 Mbit/s at 25 frames a second

// frames sends media frames as a publisher does, 40 ms apart.
func frames(t testing.TB, conn *net.UDPConn, to netip.AddrPort, count int) {
	t.Helper()
	tick := time.NewTicker(40 * time.Millisecond)
	defer tick.Stop()
	payload := make([]byte, 1250)
	for i := range count {
		for k := range framePackets {
			binary.BigEndian.PutUint64(payload, uint64(i*framePackets+k))
			_, err := conn.WriteToUDPAddrPort(payload, to)
			require.NoError(t, err)
		}
		<-tick.C
	}
}

func relayPoints(l *lab.Lab) []lab.Point {
	return []lab.Point{{Device: l.Relay.Device("up"), Direction: lab.ToHost},
		{Device: l.Relay.Device("down"), Direction: lab.FromHost}}
}

// A program costs the host only where the host's own device runs it.
func TestCaptureAtHosts(t *testing.T) {
	l := labtest.New(t, lab.Topology{Subscribers: 1})
	capture, err := l.StartCapture(relayPoints(l)...)
	require.NoError(t, err)
	require.Len(t, capture.AtHosts(), 1)
	sink, to := listen(t, l.Subscribers[0], l.Subscribers[0].Devices[0].IPv4.Addr())
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	require.NoError(t, err)
	defer stats.Close()
	send(t, l.Relay, to, 0, 7, 100)
	receive(t, sink, 7)
	program, err := ebpf.NewProgramFromID(capture.AtHosts()[0])
	require.NoError(t, err)
	defer program.Close()
	used, err := program.Stats()
	require.NoError(t, err)
	require.EqualValues(t, 7, used.RunCount, "once for each packet that the relay sends")
	_, err = capture.Stop()
	require.NoError(t, err)
}

// Packets that take the wire are recorded once at each point, and matched. How long they took is only logged: the
// times at which frames leave the wire are a test of package wire.
func TestDelayedPacketsAreMatched(t *testing.T) {
	const count, delay = 8, 10 * time.Millisecond
	l := labtest.New(t, lab.Topology{Subscribers: 1, Downlink: lab.Conditions{Delay: delay}})
	device := l.Subscribers[0].Devices[0]
	sink, addr := listen(t, l.Subscribers[0], device.IPv6.Addr())
	conn, err := l.Relay.ListenUDP(netip.AddrPort{})
	require.NoError(t, err)
	defer conn.Close()
	capture, err := l.StartCapture(
		lab.Point{Device: l.Relay.Device("down"), Direction: lab.FromHost},
		lab.Point{Device: device, Direction: lab.ToHost},
		lab.Point{Device: device, Direction: lab.FromHost},
		lab.Point{Device: l.Relay.Device("down"), Direction: lab.ToHost})
	require.NoError(t, err)
	frames(t, conn, addr, count)
	receive(t, sink, count*framePackets)
	// And back: the wire returns these on the ingress of the port, which they pass for the second time.
	back, target := listen(t, l.Relay, l.Relay.Device("down").IPv6.Addr())
	send(t, l.Subscribers[0], target, 0, 10, 100)
	receive(t, back, 10)
	packets, err := capture.Stop()
	require.NoError(t, err)
	require.Len(t, packets, 2*count*framePackets+2*10)

	for from, want := range map[int]int{0: count * framePackets, 2: 10} {
		delays, lost := delaysOf(packets, from, from+1)
		require.Zero(t, lost)
		require.Len(t, delays, want)
		t.Logf("%v by the wire: %v, p50", delay, delays.Quantile(.5))
	}
	require.EqualValues(t, count*framePackets, stats(t, device.Link, lab.ToHost).Delayed)
	require.EqualValues(t, 10, stats(t, device.Link, lab.FromHost).Delayed)
}

// BenchmarkWire reports how much later than asked packets leave the wire.
func BenchmarkWire(b *testing.B) {
	for _, delay := range []time.Duration{time.Millisecond, 20 * time.Millisecond} {
		b.Run(delay.String(), func(b *testing.B) {
			l := labtest.New(b, lab.Topology{Subscribers: 1, Downlink: lab.Conditions{Delay: delay}})
			device := l.Subscribers[0].Devices[0]
			sink, addr := listen(b, l.Subscribers[0], device.IPv4.Addr())
			conn, err := l.Relay.ListenUDP(netip.AddrPort{})
			require.NoError(b, err)
			defer conn.Close()
			capture, err := l.StartCapture(
				lab.Point{Device: l.Relay.Device("down"), Direction: lab.FromHost},
				lab.Point{Device: device, Direction: lab.ToHost})
			require.NoError(b, err)
			for b.Loop() {
				frames(b, conn, addr, 25)
				receive(b, sink, 25*framePackets)
			}
			reportDelays(b, capture, delay)
		})
	}
}

// BenchmarkForwarder reports the delay that the simplest relay in user space adds.
func BenchmarkForwarder(b *testing.B) {
	l := labtest.New(b, lab.Topology{Subscribers: 1})
	addr := forwarder(b, l)
	sink, _ := listen(b, l.Subscribers[0], l.Subscribers[0].Devices[0].IPv4.Addr())
	publisher, err := l.Publisher.ListenUDP(netip.AddrPort{})
	require.NoError(b, err)
	defer publisher.Close()
	capture, err := l.StartCapture(relayPoints(l)...)
	require.NoError(b, err)
	for b.Loop() {
		frames(b, publisher, addr, 25)
		receive(b, sink, 25*framePackets)
	}
	reportDelays(b, capture, 0)
}

func reportDelays(b *testing.B, capture *lab.Capture, expected time.Duration) {
	packets, err := capture.Stop()
	require.NoError(b, err)
	delays, lost := delaysOf(packets, 0, 1)
	require.Zero(b, lost)
	for name, q := range map[string]float64{"p50-µs": .5, "p99-µs": .99, "max-µs": 1} {
		b.ReportMetric(float64(delays.Quantile(q)-expected)/float64(time.Microsecond), name)
	}
}

// delaysOf returns how long each packet that passed point from took to point to. It recognises a packet by its content.
// lost counts the packets that did not pass point to.
func delaysOf(packets []measure.Packet, from, to int) (delays measure.Delays, lost int) {
	waiting := make(map[uint64][]time.Duration)
	for _, p := range packets {
		switch sent := waiting[p.Hash]; {
		case p.Point == from:
			waiting[p.Hash] = append(sent, p.Time)
			lost++
		case p.Point == to && len(sent) > 0:
			delays, waiting[p.Hash] = append(delays, p.Time-sent[0]), sent[1:]
			lost--
		}
	}
	return delays, lost
}
