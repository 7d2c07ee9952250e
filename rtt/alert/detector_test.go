package alert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"sluice/internal/webclient"
	"sluice/rtt/history"
	"sluice/rtt/report"
)

var began = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// rtts returns a histogram of RTTs that are all the same.
func rtts(rtt time.Duration, count uint64) report.Histogram {
	h := report.Histogram{Count: count, Min: rtt, Max: rtt, Sum: time.Duration(count) * rtt, Width: time.Millisecond}
	h.Bins = make([]uint64, rtt/time.Millisecond+1)
	h.Bins[len(h.Bins)-1] = count
	return h
}

// bench is a Detector with all that it tells.
type bench struct {
	*Detector
	t      *testing.T
	now    time.Time
	log    bytes.Buffer
	alerts []Alert
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, now: began}
	b.Detector = New(Config{
		Factor: 2, Lasting: 5 * time.Minute, By: report.Keys{Protocol: true},
		Logger: slog.New(slog.NewTextHandler(&b.log, nil)), Take: func(a Alert) { b.alerts = append(b.alerts, a) },
	})
	return b
}

// minutes takes a number of intervals of a minute.
func (b *bench) minutes(n int, prefixes ...report.Prefix) {
	for range n {
		start := b.now
		b.now = b.now.Add(time.Minute)
		require.NoError(b.t, b.Interval(&report.Interval{Start: start, End: b.now, Prefixes: prefixes}))
	}
}

func prefix(text string, hosts, peers report.Histogram) report.Prefix {
	return report.Prefix{Prefix: netip.MustParsePrefix(text), Protocol: "TCP", RTT: hosts, PeerRTT: peers}
}

// exposed returns the lines that Prometheus reads, without comments.
func (b *bench) exposed() string {
	registry := prometheus.NewPedanticRegistry()
	require.NoError(b.t, registry.Register(b.Detector))
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(b.t, 200, answer.Code)
	var lines strings.Builder
	for line := range strings.Lines(answer.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

func TestAlerts(t *testing.T) {
	b := newBench(t)
	some := func(hosts, peers time.Duration) report.Prefix {
		return prefix("192.0.2.0/24", rtts(hosts, 100), rtts(peers, 100))
	}
	few := prefix("198.51.100.0/24", rtts(900*ms, minRTTs-1), report.Histogram{})
	b.minutes(60, some(10*ms, 20*ms), prefix("198.51.100.0/24", rtts(10*ms, 99), report.Histogram{}))
	b.minutes(4, some(30*ms, 20*ms), few)
	require.Empty(t, b.alerts)
	b.minutes(10, some(30*ms, 20*ms), few)
	require.Len(t, b.alerts, 2, "of the median and of the 95th percentile")
	a := b.alerts[1]
	require.True(t, strings.HasSuffix(a.ID, "-2"))
	require.InEpsilon(t, 10*ms, a.Usual, 0.15)
	a.ID, a.Usual = "", 0
	require.Equal(t, Alert{
		Type: Raised, Time: began.Add(65 * time.Minute), Prefix: "192.0.2.0/24", Protocol: "TCP",
		Part: PartHosts, Quantile: 0.95, RTT: 30 * ms,
	}, a)
	require.Contains(t, b.log.String(),
		`level=WARN msg="RTTs have risen" prefix="192.0.2.0/24 TCP" part=hosts quantile=0.95 rtt=30ms usual=1`)
	require.Regexp(t, `^sluice_rtt_alert_ratio{part="hosts",prefix="192.0.2.0/24",protocol="TCP",quantile="0.5"} 2\.\d+
sluice_rtt_alert_ratio{part="hosts",prefix="192.0.2.0/24",protocol="TCP",quantile="0.95"} 2\.\d+
sluice_rtt_alerts_total{event="ended",quantile="0.5"} 0
sluice_rtt_alerts_total{event="ended",quantile="0.95"} 0
sluice_rtt_alerts_total{event="raised",quantile="0.5"} 1
sluice_rtt_alerts_total{event="raised",quantile="0.95"} 1
$`, b.exposed())

	b.minutes(4, some(10*ms, 20*ms))
	require.Len(t, b.alerts, 2)
	b.minutes(10, some(10*ms, 20*ms))
	require.Len(t, b.alerts, 4)
	end := b.alerts[3]
	require.Equal(t, Ended, end.Type)
	require.Equal(t, ReasonUsual, end.Reason)
	require.Equal(t, began.Add(65*time.Minute), *end.Since)
	require.Contains(t, b.log.String(), `reason="as usual" lasted=14m0s`)
	require.NotContains(t, b.exposed(), "ratio")

	b.minutes(10, some(10*ms, 90*ms))
	require.Len(t, b.alerts, 6)
	require.Equal(t, PartPeers, b.alerts[5].Part)
}

// RTTs of the whole path are followed by themselves: there may be no others.
func TestAlertsOfOneDirection(t *testing.T) {
	b := newBench(t)
	alone := func(rtt time.Duration) report.Prefix {
		p := prefix("192.0.2.0/24", report.Histogram{}, report.Histogram{})
		p.OneDirection = rtts(rtt, 100)
		return p
	}
	b.minutes(60, alone(10*ms))
	b.minutes(4, alone(30*ms))
	require.Empty(t, b.alerts)
	b.minutes(10, alone(30*ms))
	require.Len(t, b.alerts, 2)
	require.Equal(t, PartOneDirection, b.alerts[0].Part)
}

// TestQuietAggregates lets nobody talk any more to whom an alert is raised for.
func TestQuietAggregates(t *testing.T) {
	b := newBench(t)
	b.minutes(60, prefix("192.0.2.0/24", rtts(10*ms, 100), report.Histogram{}))
	b.minutes(6, prefix("192.0.2.0/24", rtts(90*ms, 100), report.Histogram{}))
	require.Len(t, b.alerts, 2)
	b.minutes(59)
	require.Len(t, b.alerts, 2)
	b.minutes(1)
	require.Len(t, b.alerts, 4)
	require.Equal(t, ReasonNotMeasured, b.alerts[3].Reason)
	b.minutes(1, prefix("192.0.2.0/24", rtts(10*ms, 100), report.Histogram{}))
	require.Len(t, b.alerts, 4)
	require.NotContains(t, b.exposed(), "ratio")
}

// TestAlertsEndWithTheMonitor: the next one cannot end them, since it does not know them.
func TestAlertsEndWithTheMonitor(t *testing.T) {
	b := newBench(t)
	b.minutes(60, prefix("192.0.2.0/24", rtts(10*ms, 100), report.Histogram{}))
	b.minutes(7, prefix("192.0.2.0/24", rtts(90*ms, 100), report.Histogram{}))
	require.Len(t, b.alerts, 2)
	require.NoError(t, b.Close())
	require.Len(t, b.alerts, 4)
	require.Equal(t, ReasonMonitorEnds, b.alerts[3].Reason)
	require.Equal(t, b.now, b.alerts[3].Time)
	require.NoError(t, b.Close())
	require.Len(t, b.alerts, 4)
}

// TestLearn lets a second monitor go on where the first one has ended.
func TestLearn(t *testing.T) {
	dir := t.TempDir()
	w, err := history.NewWriter(dir, history.Limits{Size: 1 << 30}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	first := newBench(t)
	some := prefix("192.0.2.0/24", rtts(10*ms, 100), rtts(20*ms, 100))
	some.OneDirection = rtts(30*ms, 100)
	few := prefix("198.51.100.0/24", rtts(10*ms, minRTTs-1), report.Histogram{})
	for range 90 {
		end := first.now.Add(time.Minute)
		require.NoError(t, w.Interval(&report.Interval{
			Start: first.now, End: end, Prefixes: []report.Prefix{some, few},
		}))
		first.now = end
	}
	require.NoError(t, w.Close())

	alone := prefix("192.0.2.0/24", report.Histogram{}, report.Histogram{})
	alone.OneDirection = rtts(90*ms, 100)
	for part, high := range map[string]report.Prefix{
		PartOneDirection: alone,
		PartHosts:        prefix("192.0.2.0/24", rtts(30*ms, 100), rtts(20*ms, 100)),
		PartPeers:        prefix("192.0.2.0/24", rtts(10*ms, 100), rtts(60*ms, 100)),
	} {
		second := newBench(t)
		second.now = first.now.Add(5 * time.Minute)
		require.NoError(t, second.Learn(dir, second.now))
		require.Equal(t, 3, second.of.Len())
		second.minutes(5, high)
		require.Len(t, second.alerts, 2)
		require.Equal(t, part, second.alerts[0].Part)
		require.Equal(t, "192.0.2.0/24", second.alerts[0].Prefix)
	}
	late := newBench(t)
	require.NoError(t, late.Learn(dir, first.now.Add(3*time.Hour)))
	require.Zero(t, late.of.Len(), "what is old says nothing")
}

// TestAggregatesAreLimited has more aggregates than are followed, and alerts for some that make room.
func TestAggregatesAreLimited(t *testing.T) {
	b := newBench(t)
	var high []report.Prefix
	for i := range maxLines + 5 {
		high = append(high, prefix(fmt.Sprintf("192.0.%d.0/24", i), rtts(10*ms, 100), report.Histogram{}))
	}
	b.minutes(60, high...)
	for i := range high {
		high[i].RTT = rtts(90*ms, 100)
	}
	b.log.Reset()
	b.minutes(6, high...)
	require.Len(t, b.alerts, 2*len(high))
	require.Equal(t, maxLines, strings.Count(b.log.String(), "RTTs have risen"), "a line each, for the first ones")
	require.Contains(t, b.log.String(), fmt.Sprintf("omitted=%d", 2*len(high)-maxLines))

	var others []report.Prefix
	for i := range maxAggregates {
		others = append(others, prefix(fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255), rtts(10*ms, 100), report.Histogram{}))
	}
	b.minutes(1, others...)
	require.Equal(t, maxAggregates, b.of.Len())
	require.Len(t, b.alerts, 4*len(high))
	require.Empty(t, b.raised)
}

func TestSender(t *testing.T) {
	signature, bodies := make(chan string, 1), make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		signature <- r.Header.Get("webhook-signature")
		bodies <- string(b)
	}))
	defer server.Close()
	s, err := NewSender(webclient.Config{URL: server.URL, Secrets: webclient.Secrets{make([]byte, 32)}}, nil)
	require.NoError(t, err)
	since := began
	s.Add(Alert{
		ID: "X-1", Type: Ended, Time: began, Prefix: "customer", Peer: "10.0.0.0/8", VLAN: 7, InnerVLAN: 8,
		Part: PartHosts, Quantile: 0.5, RTT: 10 * ms, Usual: 9 * ms, Since: &since, Reason: ReasonUsual,
	})
	require.Contains(t, <-signature, "v1,")
	body := <-bodies
	require.True(t, json.Valid([]byte(body)))
	require.Equal(t, `{"alerts":[{"id":"X-1","type":"ended","time":"2026-07-01T12:00:00Z","prefix":"customer",`+
		`"peer":"10.0.0.0/8","vlan":7,"inner_vlan":8,"part":"hosts","quantile":0.5,"rtt_ns":10000000,`+
		`"usual_ns":9000000,"since":"2026-07-01T12:00:00Z","reason":"as usual"}]}`, body)
	s.Close(t.Context())
	require.NoError(t, prometheus.NewRegistry().Register(s))
	_, err = NewSender(webclient.Config{URL: "nowhere"}, nil)
	require.ErrorContains(t, err, "must be https or http")
}
