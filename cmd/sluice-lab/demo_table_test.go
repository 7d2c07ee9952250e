package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/cli"
	"sluice/lab"
	"sluice/lab/measure"
	"sluice/lab/process"
	"sluice/relay"
)

// measuredStage is a stage that has measured a delay for each subscriber.
type measuredStage struct {
	loopbackStage
	measured map[string]measure.Delays
}

func (s measuredStage) delays(subscriber string) measure.Delays { return s.measured[subscriber] }

// errDifferent is how a subscriber ends that has received other media.
var errDifferent = exec.Command("sh", "-c", fmt.Sprint("exit ", cli.ExitDiffers)).Run()

// subscriber returns one that has received some objects. It has ended unless it is playing.
func subscriber(name, over string, objects int, playing bool, err error) *demoSubscriber {
	s := &demoSubscriber{over: over}
	s.Process = process.Elsewhere(name, func(log io.Writer) error {
		if playing {
			select {}
		}
		fmt.Fprintf(log, "played %d objects, 5.0 kB, 4.00 s of media\n", objects)
		return err
	})
	if !playing {
		<-s.Done()
	}
	return s
}

// measured returns a relay that has described the sessions of some hosts.
func measured(host string, sessions map[string]relay.SessionStatus) *demoRelay {
	r := &demoRelay{host: host, kernel: true, sessions: make(map[string]relay.SessionStatus)}
	for to, s := range sessions {
		r.sessions["/"+to] = s
	}
	return r
}

func TestDemoTable(t *testing.T) {
	d := newDemoRun(measuredStage{measured: map[string]measure.Delays{
		"sub1": {40 * time.Microsecond}, "sub4": {60 * time.Microsecond},
	}}, "", &source{count: 100, bytes: 5000, duration: 4 * time.Second}, "auto")
	d.relays = []*demoRelay{measured(lab.RelayName, map[string]relay.SessionStatus{
		"sub1": {Packets: relay.SentPackets{Kernel: 70, Process: 10}, Declined: map[string]uint64{"window": 2}},
		"sub4": {Packets: relay.SentPackets{Kernel: 20}},
	})}
	d.subscribers = []*demoSubscriber{
		subscriber("sub1", "QUIC", 100, false, nil),
		subscriber("sub2", "QUIC", 40, true, nil),
		subscriber("sub3", "QUIC", 40, false, errors.New("no luck")),
		subscriber("sub4", "WebTransport", 99, false, errDifferent),
	}
	var out bytes.Buffer
	table := newDemoTable(&out, d, false)
	table.update()
	require.Empty(t, out.String(), "a file gets the last table only")
	table.print()
	table.explain(&out)
	table.summary()
	require.Equal(t, trimmed(`
      OVER          OBJECTS  KERNEL  PROCESS  DELAY P50  P99      STATE
sub1  QUIC          100/100  70      10       0.04 ms    0.04 ms  identical
sub2  QUIC          -        0       0        -          -        playing
sub3  QUIC          40/100   0       0        -          -        failed
sub4  WebTransport  99/100   20      0        0.06 ms    0.06 ms  differs
  left to the process for sub1: 2 window

1 of 4 subscribers received the clip byte for byte: 100 objects, 5.0 kB, 4.00 s of media
the kernel sent 90.0 % of 100 packets with media, and declined to send 2
the relay added p50 40µs, p90 60µs, p99 60µs, max 60µs of delay to 2 bursts of packets
`), trimmed(out.String()))

	d.relays[0].kernel = false
	require.Equal(t, "-\t10", d.hops()[0].packetsText())
}

func TestDemoTableOfAChain(t *testing.T) {
	d := newDemoRun(measuredStage{measured: map[string]measure.Delays{
		"relay2": {20 * time.Microsecond}, "sub1": {60 * time.Microsecond},
	}}, "", &source{count: 100, bytes: 5000, duration: 4 * time.Second}, "auto")
	d.relays = []*demoRelay{
		measured("relay", map[string]relay.SessionStatus{
			"relay2": {Packets: relay.SentPackets{Kernel: 30, Process: 10}, Declined: map[string]uint64{"window": 2}},
			"pub":    {Packets: relay.SentPackets{Process: 1}},
		}),
		measured("relay2", map[string]relay.SessionStatus{"sub1": {Packets: relay.SentPackets{Kernel: 40}}}),
	}
	d.subscribers = []*demoSubscriber{subscriber("sub1", "WebTransport", 100, false, nil)}
	var out bytes.Buffer
	table := newDemoTable(&out, d, false)
	table.print()
	table.explain(&out)
	table.summary()
	require.Equal(t, trimmed(`
        OVER          OBJECTS  KERNEL  PROCESS  DELAY P50  P99      STATE
relay2  QUIC          -        30      10       0.02 ms    0.02 ms  from relay
sub1    WebTransport  100/100  40      0        0.06 ms    0.06 ms  identical
  left to the process for relay2: 2 window

1 of 1 subscribers received the clip byte for byte: 100 objects, 5.0 kB, 4.00 s of media
the kernel of relay sent 75.0 % of 40 packets with media, and declined to send 2
the kernel of relay2 sent 100.0 % of 40 packets with media, and declined to send 0
the 2 relays and their links added p50 60µs, p90 60µs, p99 60µs, max 60µs of delay to 1 bursts of packets
`), trimmed(out.String()))
}

// trimmed removes the white space around a text.
func trimmed(s string) string { return strings.TrimSpace(s) }

func TestDemoTableOnATerminal(t *testing.T) {
	d := newDemoRun(loopbackStage{}, "", &source{count: 1}, "off")
	d.relays = []*demoRelay{measured(lab.RelayName, nil)}
	d.subscribers = []*demoSubscriber{subscriber("sub1", "QUIC", 0, true, nil)}
	var out bytes.Buffer
	table := newDemoTable(&out, d, false)
	table.terminal = true
	table.update()
	first := out.String()
	out.Reset()
	table.update()
	require.Equal(t, "\x1b[2A\x1b[J"+first, out.String(), "it replaces the two lines of the first")
}

func TestManySubscribersAreNotAllExplained(t *testing.T) {
	d := newDemoRun(loopbackStage{}, "", &source{}, "auto")
	d.relays = []*demoRelay{measured(lab.RelayName, nil)}
	for i := range maxExplained + 1 {
		name := lab.SubscriberName(i + 1)
		d.subscribers = append(d.subscribers, subscriber(name, "QUIC", 0, false, nil))
		declined := map[string]uint64{"a": 4, "b": 3, "c": 2, "d": 1}
		d.relays[0].sessions["/"+name] = relay.SessionStatus{Declined: declined}
	}
	var some, all bytes.Buffer
	newDemoTable(io.Discard, d, false).explain(&some)
	require.Contains(t, some.String(), "sub1: 4 a, 3 b, 2 c, 1 others\n")
	require.True(t, strings.HasSuffix(some.String(), "  … (--verbose shows all)\n"))
	require.NotContains(t, some.String(), "sub6")
	newDemoTable(io.Discard, d, true).explain(&all)
	require.Contains(t, all.String(), "sub6: 4 a, 3 b, 2 c, 1 d\n")
}
