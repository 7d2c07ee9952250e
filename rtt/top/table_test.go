package top

import (
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/rtt/report"
	"sluice/rtt/report/reporttest"
)

// flowOf returns a flow of the host 10.0.0.HOST.
func flowOf(protocol, host string, rtt time.Duration, sent, received, retransmissions uint64) report.FlowState {
	return report.FlowState{
		Ends: report.Ends{
			Source:      netip.MustParseAddrPort("10.0.0." + host + ":80"),
			Destination: netip.MustParseAddrPort("10.0.1.1:1000"), Protocol: protocol,
		},
		SmoothedRTT: rtt, MinRTT: rtt / 2, Sent: report.Traffic{Packets: sent, Bytes: 100 * sent},
		Received: report.Traffic{Packets: received, Bytes: 100 * received}, Retransmissions: retransmissions,
	}
}

func TestTopFlows(t *testing.T) {
	top := Table{}
	now := time.Unix(1000, 0)
	top.UpdateFlows(now, []report.FlowState{
		flowOf("TCP", "1", 5*time.Millisecond, 10, 10, 0), flowOf("QUIC", "2", 9*time.Millisecond, 0, 0, 0),
	})
	top.UpdateFlows(now.Add(2*time.Second), []report.FlowState{
		flowOf("TCP", "1", 5*time.Millisecond, 40, 30, 1), flowOf("QUIC", "2", 9*time.Millisecond, 10, 0, 0),
		flowOf("ICMP", "3", 0, 4, 3, 0),
	})
	lines := func() []string { return top.Render(100, 10) }
	require.Equal(t, strings.TrimPrefix(`
PROTO  SOURCE                   DESTINATION                  RTT ms▼     MIN ms  LOSS %     KBYTE/s
QUIC   10.0.0.2:80              10.0.1.1:1000                  9.000      4.500       -         0.5
TCP    10.0.0.1:80              10.0.1.1:1000                  5.000      2.500    2.50         2.5
ICMP   10.0.0.3:80              10.0.1.1:1000                      -          -   25.00         0.0`, "\n"),
		strings.Join(lines(), "\n"))
	top.SortBy(SortLoss)
	require.Contains(t, lines()[0], "LOSS %▼")
	require.Contains(t, lines()[1], "ICMP")
	top.SortBy(SortBytes)
	require.Contains(t, lines()[1], "TCP")
	require.Len(t, top.Render(100, 2), 2, "no more than fits")
	for _, line := range top.Render(40, 10) {
		require.LessOrEqual(t, len([]rune(line)), 40)
	}
}

// RTTs of a flow with one direction seen are not between here and a host: they are marked.
func TestTopFlowsOfOneDirection(t *testing.T) {
	alone := flowOf("TCP", "1", 40*time.Millisecond, 10, 0, 0)
	waiting := flowOf("TCP", "2", 0, 1, 0, 0)
	alone.OneDirection, waiting.OneDirection = true, true
	top := Table{}
	top.UpdateFlows(time.Unix(1000, 0), []report.FlowState{alone, waiting})
	require.Equal(t, strings.TrimPrefix(`
PROTO  SOURCE                   DESTINATION                  RTT ms▼     MIN ms  LOSS %     KBYTE/s
TCP    10.0.0.1:80              10.0.1.1:1000                40.000*    20.000*    0.00         0.0
TCP    10.0.0.2:80              10.0.1.1:1000                      -          -    0.00         0.0`, "\n"),
		strings.Join(top.Render(100, 10), "\n"))
}

// cells returns lines with a bar between two cells.
func cells(lines []string) (all []string) {
	for _, line := range lines {
		all = append(all, between.ReplaceAllString(strings.TrimSpace(line), "|"))
	}
	return all
}

var between = regexp.MustCompile(` {2,}`)

func TestTopPrefixes(t *testing.T) {
	top := Table{Prefixes: true}
	top.UpdatePrefixes(reporttest.Interval())
	// The median, one of eight segments and 4 of 126 packets of QUIC, 380 bytes in two seconds.
	require.Equal(t, strings.TrimPrefix(`
PREFIX                                   RTT ms▼     MIN ms  LOSS %     KBYTE/s  SENT LOSS %  RCVD LOSS %
10.99.1.0/24                               6.000      2.000    3.73         0.2         3.82         0.00
::/0                                           -          -       -         0.0            -            -`,
		"\n"), strings.Join(top.Render(105, 10), "\n"))
	require.Equal(t, 2, top.Len())
}

// Parts of the RTTs have columns of their own, as many as there are.
func TestTopParts(t *testing.T) {
	rtts := func(ms int) report.Histogram {
		rtt := time.Duration(ms) * time.Millisecond
		return report.Histogram{
			Count: 1, Min: rtt, Max: rtt, Sum: rtt, Width: 100 * time.Millisecond, Bins: []uint64{1},
		}
	}
	idle, loaded, peers, whole := rtts(5), rtts(80), rtts(12), rtts(30)
	live := Table{Prefixes: true}
	live.UpdatePrefixes(&report.Interval{Start: time.Unix(1000, 0), End: time.Unix(1002, 0), Prefixes: []report.Prefix{
		{
			Group: "customer", RTT: rtts(5), PeerRTT: peers, ByLoad: report.Load{Idle: idle, Loaded: loaded},
			OneDirection: whole,
		},
		{Group: "quiet"},
	}})
	top := &live
	require.Equal(t, []string{
		"PREFIX|RTT ms▼|MIN ms|LOSS %|KBYTE/s|IDLE ms|LOADED ms|ONE-DIRECTION ms|PEERS ms|SENT LOSS %|RCVD LOSS %",
		"customer|5.000|5.000|-|0.0|5.000|80.000|30.000|12.000|-|-",
		"quiet|-|-|-|0.0|-|-|-|-|-|-",
	}, cells(top.Render(160, 10)))
	for _, line := range top.Render(60, 10) {
		require.LessOrEqual(t, len([]rune(line)), 60)
	}
	top.UpdatePrefixes(reporttest.Interval())
	require.NotContains(t, top.Render(160, 10)[0], "PEERS")
}

// Where only one direction passes, prefixes are sorted by its RTTs, which have a star.
func TestTopOneDirection(t *testing.T) {
	rtts := func(ms int) report.Histogram {
		rtt := time.Duration(ms) * time.Millisecond
		return report.Histogram{
			Count: 1, Min: rtt, Max: rtt, Sum: rtt, Width: 100 * time.Millisecond, Bins: []uint64{1},
		}
	}
	near, far := rtts(5), rtts(30)
	live := Table{Prefixes: true}
	live.UpdatePrefixes(&report.Interval{Start: time.Unix(1000, 0), End: time.Unix(1002, 0), Prefixes: []report.Prefix{
		{Group: "a", OneDirection: near}, {Group: "b", OneDirection: far},
	}})
	top := &live
	require.Equal(t, []string{
		"PREFIX|RTT ms▼|MIN ms|LOSS %|KBYTE/s|ONE-DIRECTION ms|SENT LOSS %|RCVD LOSS %",
		"b|30.000*|30.000*|-|0.0|30.000|-|-",
		"a|5.000*|5.000*|-|0.0|5.000|-|-",
	}, cells(top.Render(160, 10)))
}
