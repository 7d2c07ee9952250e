package rtt

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/rtt/internal/wire"
	"sluice/rtt/report"
	"sluice/rtt/report/reporttest"
)

// affinitySink notes on how many CPUs the replay may run at each RTT.
type affinitySink struct {
	reporttest.Sink
	counts []int
}

func (k *affinitySink) Sample(*report.Sample) error {
	var cpus unix.CPUSet
	err := unix.SchedGetaffinity(0, &cpus)
	k.counts = append(k.counts, cpus.Count())
	return err
}

// TestReplayStaysOnOneCPU shows that no capture's output depends on the CPUs: a replay stays on one, and leaves its
// thread as it was.
func TestReplayStaysOnOneCPU(t *testing.T) {
	requireKernel(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &before))
	var s script
	s.echo(0, 1, "198.51.100.1", 10)
	s.echo(2000, 2, "198.51.100.1", 10)
	var got affinitySink
	mustReplay(t, MonitorConfig{ICMP: true, Sink: &got}, captureFile(t, s.packets...))
	require.Equal(t, []int{1, 1}, got.counts)
	require.NoError(t, unix.SchedGetaffinity(0, &after))
	require.Equal(t, before, after)
}

// TestReplayOfCutPackets shows that a packet cut by the capture is not measured with the bytes of the packet after it:
// they begin with the time, whose first byte is 0 here, as is the last byte of the echo's number.
func TestReplayOfCutPackets(t *testing.T) {
	t.Parallel()
	requireKernel(t)
	for cut, want := range map[int][]string{0: {"16"}, 1: nil} {
		var s script
		s.echo(0, 256, "198.51.100.1", 16)
		s.echo(32, 512, "198.51.100.1", 16)
		s.packets = s.packets[:3]
		const headers = 14 + 20 + 8
		for i := range s.packets {
			s.packets[i].Frame = s.packets[i].Frame[:headers-cut]
		}
		got := rttsOf(t, MonitorConfig{ICMP: true}, captureFile(t, s.packets...))
		require.Equal(t, want, got, "%d bytes are missing", cut)
	}
}

// TestReplayOfCutMessages shows that a message of DNS is measured if its question was captured, also as the last packet
// of a batch.
func TestReplayOfCutMessages(t *testing.T) {
	t.Parallel()
	requireKernel(t)
	question := wire.DNS{ID: 1, Name: "example.org", Type: 1}
	answer := question
	answer.Response, answer.Answers = true, 2
	for cut, want := range map[int][]string{0: {"8"}, 1: nil} {
		var s script
		s.ip(0, wire.UDP(alice, resolver4, question.Message()))
		s.ip(8, wire.UDP(resolver4, alice, answer.Message()))
		p := &s.packets[1]
		p.Frame = p.Frame[:14+20+8+len(question.Message())-cut]
		got := rttsOf(t, MonitorConfig{DNS: true}, captureFile(t, s.packets...))
		require.Equal(t, want, got, "%d bytes of the question are missing", cut)
	}
}

// TestReplayOfCutHeaders has packets captured up to an inner header, behind extension headers or in a tunnel. In a
// batch the next packet's time follows, which must not be taken for it: here it looks like an extension header of eight
// bytes before a protocol for experiments.
func TestReplayOfCutHeaders(t *testing.T) {
	requireKernel(t)
	v6 := wire.IP{From: echoFrom6, To: echoTo6, Protocol: wire.ProtocolUDP, Next: 60, Options: make([]byte, 16)}
	inner := wire.IP{From: echoFrom4, To: echoTo4, Protocol: wire.ProtocolUDP}.Packet(make([]byte, 20))
	for name, test := range map[string]struct {
		tunnels  bool
		packet   []byte
		captured int
	}{
		"extension header":   {false, v6.Packet(make([]byte, 20)), 14 + 40},
		"header in a tunnel": {true, wire.IP{From: echoFrom6, To: echoTo6, Protocol: 4}.Packet(inner), 14 + 40 + 10},
	} {
		t.Run(name, func(t *testing.T) {
			var s script
			for n := range 3 {
				s.ip(0, test.packet)
				p := &s.packets[n]
				p.At = time.Unix(0, p.At.UnixNano()&^0xffff|253).Add(time.Duration(n) << 16)
				p.Frame = p.Frame[:test.captured]
			}
			var got reporttest.Sink
			replay := mustReplay(t, MonitorConfig{
				ICMP: true, Tunnels: test.tunnels, Aggregate: time.Minute, Sink: &got,
			}, captureFile(t, s.packets...))
			require.Equal(t, Replayed{Packets: 3}, replay)
			require.Len(t, got.Intervals, 1)
			require.Empty(t, got.Intervals[0].Prefixes)
		})
	}
}
