//go:build linux

package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/internal/thorough"
	"sluice/rtt/internal/wire"
)

var testLimits = Limits{Flows: 1024, Queries: 64, Stamps: 4096, LocalAddresses: 16, RingBytes: 1 << 18}

var allPrograms = []string{
	MonitorProgIngress, MonitorProgEgress, MonitorProgIngressIp, MonitorProgEgressIp, MonitorProgXdpIngress,
	MonitorProgXdpIngressIp, MonitorProgExpireFlows, MonitorProgExpireQueries, MonitorProgFlush,
}

// requireKernel skips a test that needs to load BPF programs and may not.
var requireKernel = thorough.Root

// epoch is the time of the packets that a test shows "at 0".
const epoch = 1000 * time.Second

// A watch shows packets to the loaded programs at times of the test's choosing.
type watch struct {
	t      testing.TB
	m      *Monitor
	events *ringbuf.Reader
	now    time.Duration
}

// watching has programs with the settings, by default the program for leaving packets. Events are on, and the test
// sets the clock.
func watching(t testing.TB, s MonitorSettings, programs ...string) *watch {
	t.Helper()
	requireKernel(t)
	s.Events, s.Replay = 1, 1
	s.Batch = max(s.Batch, 1)
	if programs == nil {
		programs = []string{MonitorProgEgress}
	}
	l := borrow(t, s, programs)
	return &watch{t: t, m: l.Monitor, events: l.events}
}

// show runs a program over a frame. The frame must pass, whatever it holds.
func (w *watch) show(program string, at time.Duration, frame []byte) {
	w.t.Helper()
	w.now = at
	require.NoError(w.t, w.m.SetClock(uint64(epoch+at), len(frame)))
	verdict, err := w.m.Programs[program].Run(&ebpf.RunOptions{Data: padded(frame)})
	require.NoError(w.t, err, "%s, %d bytes", program, len(frame))
	require.Equal(w.t, verdicts[w.m.Programs[program].Type()], int32(verdict), "a packet must pass")
}

// verdicts are TCX_NEXT and XDP_PASS.
var verdicts = map[ebpf.ProgramType]int32{ebpf.SchedCLS: -1, ebpf.XDP: 2}

// minFrame is the length of the shortest frame that Program.Run takes: an Ethernet header and one byte.
const minFrame = 15

func padded(frame []byte) []byte {
	return append(frame, make([]byte, max(0, minFrame-len(frame)))...)
}

// raw returns the events since the last call.
func (w *watch) raw() (events []MonitorEvent) {
	w.t.Helper()
	w.events.SetDeadline(time.Unix(0, 1))
	for {
		record, err := w.events.Read()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return events
		}
		require.NoError(w.t, err)
		for raw := record.RawSample; len(raw) > 0; raw = raw[unsafe.Sizeof(MonitorEvent{}):] {
			events = append(events, *(*MonitorEvent)(unsafe.Pointer(&raw[0])))
		}
	}
}

// got returns the events of raw as text, one line for each.
func (w *watch) got() (lines []string) {
	w.t.Helper()
	for _, e := range w.raw() {
		lines = append(lines, describe(e))
	}
	return lines
}

// rtts returns got without the flow events.
func (w *watch) rtts() (lines []string) {
	w.t.Helper()
	for _, line := range w.got() {
		if strings.Contains(line, " +") {
			lines = append(lines, line)
		}
	}
	return lines
}

var (
	methods      = []string{"timestamp", "sequence", "echo", "query", "handshake", "spin", "NTP", "STUN"}
	openReasons  = []string{"SYN", "SYN-ACK", "first packet"}
	closeReasons = []string{"FIN", "RST", "timeout", "SYN"}
	triggers     = []string{"source", "destination", "expiry"}
)

// describe writes an event as the tests compare it: "12ms +10ms timestamp 10.0.0.2:80>10.0.0.1:1000" is an RTT of 10 ms
// that was reported at 12 ms.
func describe(e MonitorEvent) string {
	at := time.Duration(e.Time) - epoch
	ends := endpoint(e.Source, e.SourcePort) + ">" + endpoint(e.Destination, e.DestinationPort)
	switch MonitorEventType(e.Type) {
	case MonitorEventTypeEVENT_OPENING:
		return fmt.Sprintf("%v open %s: %s from %s", at, ends, openReasons[e.Reason], triggers[e.Trigger])
	case MonitorEventTypeEVENT_CLOSING:
		return fmt.Sprintf("%v close %s: %s from %s", at, ends, closeReasons[e.Reason], triggers[e.Trigger])
	}
	line := fmt.Sprintf("%v +%v %s %s", at, time.Duration(e.Rtt), methods[e.Method], ends)
	switch MonitorMethod(e.Method) {
	case MonitorMethodMETHOD_DNS:
		line += fmt.Sprintf(" type %d rcode %d", e.QueryType, e.Rcode)
		if e.Flags&uint8(MonitorEventFlagEVENT_TRUNCATED) != 0 {
			line += " truncated"
		}
	case MonitorMethodMETHOD_SPIN:
		if e.FarRtt == 0 {
			break
		}
		line += fmt.Sprintf(" near %v far %v", time.Duration(e.Rtt-e.FarRtt), time.Duration(e.FarRtt))
	}
	if e.InnerVlan != 0 {
		line += fmt.Sprintf(" vlan %d.%d", e.Vlan, e.InnerVlan)
	}
	if e.Vni != 0 {
		line += fmt.Sprintf(" vni %d", e.Vni)
	}
	if e.Flags&uint8(MonitorEventFlagEVENT_AMBIGUOUS) != 0 {
		line += " ambiguous"
	}
	if e.Flags&uint8(MonitorEventFlagEVENT_ONE_DIRECTION) != 0 {
		line += " one direction"
	}
	return line
}

func endpoint(a MonitorAddress, port uint16) string {
	var b [2]byte
	binary.NativeEndian.PutUint16(b[:], port)
	return netip.AddrPortFrom(netip.AddrFrom16(a.Bytes).Unmap(), binary.BigEndian.Uint16(b[:])).String()
}

// expire runs a clean-up program over its table.
func (w *watch) expire(at time.Duration, program string) {
	w.t.Helper()
	require.NoError(w.t, w.m.SetClock(uint64(epoch+at), 0))
	_, err := w.m.Programs[program].Run(new(ebpf.RunOptions))
	require.NoError(w.t, err)
}

// outcomes returns the outcomes that were counted, by label.
func (w *watch) outcomes() map[string]uint64 {
	w.t.Helper()
	c, err := w.m.Counters()
	require.NoError(w.t, err)
	counted := make(map[string]uint64)
	for i, n := range c.Outcome {
		if n != 0 {
			counted[Outcomes[i].Label] = n
		}
	}
	return counted
}

// tally returns one tally.
func (w *watch) tally(which MonitorTally) uint64 {
	w.t.Helper()
	c, err := w.m.Counters()
	require.NoError(w.t, err)
	return c.Tally[which]
}

func withPort(a netip.AddrPort, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr(), port)
}

// onOneCPU keeps the test on one CPU, because each CPU has its own batch.
func onOneCPU(t testing.TB) {
	runtime.LockOSThread()
	var before, one unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &before))
	one.Set(0)
	require.NoError(t, unix.SchedSetaffinity(0, &one))
	t.Cleanup(func() {
		require.NoError(t, unix.SchedSetaffinity(0, &before))
		runtime.UnlockOSThread()
	})
}

// see shows packets to the program for leaving packets.
func (w *watch) see(packets ...moment) {
	w.t.Helper()
	for _, p := range packets {
		w.show(MonitorProgEgress, p.at, wire.Frame(p.packet))
	}
}
