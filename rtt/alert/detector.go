package alert

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"

	"sluice/rtt/history"
	"sluice/rtt/report"
)

const (
	// maxAggregates limits the aggregates that are followed, parts of their RTTs counted apart. The aggregate that was
	// not measured for the longest time makes room. One takes about 500 bytes.
	maxAggregates = 32768
	// minRTTs is how many RTTs an interval needs to count.
	minRTTs = 20
	// quiet is how long an alert stays without an interval that counts.
	quiet = time.Hour
	// maxLines is how many alerts of an interval have log lines of their own.
	maxLines = 20
)

// quantiles are the quantiles that are followed.
var quantiles = [...]float64{0.5, 0.95}

// Config is the configuration of a Detector.
type Config struct {
	Factor  float64       // an alert is raised when a quantile is this many times its usual value: more than 1
	Lasting time.Duration // for so long
	By      report.Keys   // keys of aggregates, for the labels of metrics
	Logger  *slog.Logger  // nil: slog.Default()
	Take    func(Alert)   // called with each alert, on the goroutine of Interval; may be nil
}

// Detector finds rises. It implements report.Sink and prometheus.Collector.
type Detector struct {
	report.IntervalsOnly
	cfg      Config
	rule     rule
	instance string // begins the ids of this process
	descs    descs

	mu      sync.Mutex // guards the fields below
	of      *lru.Cache[key, *aggregate]
	raised  map[key]*aggregate // aggregates with alerts
	number  uint64             // of the last alert
	counts  map[countKey]uint64
	pending []Alert   // of the interval that is taken
	last    time.Time // end of the last interval
}

type key struct{ label, part string }

// countKey are the labels of the number of alerts.
type countKey struct {
	event    Type
	quantile int
}

// aggregate is the state of an aggregate, or of a part of one.
type aggregate struct {
	prefix  report.Prefix // its keys only
	part    string
	signals [len(quantiles)]signal
	seen    time.Time // end of the last interval that counted
}

// New returns a Detector.
func New(cfg Config) *Detector {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	d := &Detector{
		cfg: cfg, rule: rule{cfg.Factor, cfg.Lasting}, instance: rand.Text(), descs: newDescs(cfg.By),
		raised: make(map[key]*aggregate), counts: make(map[countKey]uint64),
	}
	d.of, _ = lru.NewWithEvict(maxAggregates, d.evictedLocked) // fails only if the number is not positive
	return d
}

// Interval takes an interval, and raises and ends alerts.
func (d *Detector) Interval(i *report.Interval) error {
	d.mu.Lock()
	for n := range i.Prefixes {
		p := &i.Prefixes[n]
		d.observeLocked(i, p, PartHosts, &p.RTT)
		d.observeLocked(i, p, PartPeers, &p.PeerRTT)
		d.observeLocked(i, p, PartOneDirection, &p.OneDirection)
	}
	for k, a := range d.raised {
		if i.End.Sub(a.seen) >= quiet {
			d.endLocked(k, a, i.End, ReasonNotMeasured)
		}
	}
	d.last = i.End
	d.tell()
	return nil
}

// Close ends all alerts: nobody would later, because the next process does not know them.
func (d *Detector) Close() error {
	d.mu.Lock()
	for k, a := range d.raised {
		d.endLocked(k, a, d.last, ReasonMonitorEnds)
	}
	d.tell()
	return nil
}

// observeLocked takes one part of the RTTs of an aggregate.
func (d *Detector) observeLocked(i *report.Interval, p *report.Prefix, part string, h *report.Histogram) {
	if h.Count < minRTTs {
		return
	}
	k, a := key{p.Label(), part}, d.aggregateLocked(p, part)
	a.seen = i.End
	for q := range a.signals {
		s := &a.signals[q]
		if !s.observe(h.Quantile(quantiles[q]), max(0, i.End.Sub(i.Start)), d.rule) {
			continue
		}
		if s.raised.IsZero() {
			d.raiseLocked(k, a, q, i.End)
		} else {
			d.endOneLocked(k, a, q, i.End, ReasonUsual)
		}
	}
}

// aggregateLocked returns the state of a part of an aggregate.
func (d *Detector) aggregateLocked(p *report.Prefix, part string) *aggregate {
	k := key{p.Label(), part}
	a, known := d.of.Get(k)
	if !known {
		a = &aggregate{part: part, prefix: report.Prefix{
			Prefix: p.Prefix, Group: p.Group, Peer: p.Peer, Interface: p.Interface, VLAN: p.VLAN, Protocol: p.Protocol,
		}}
		d.of.Add(k, a)
	}
	return a
}

func (d *Detector) raiseLocked(k key, a *aggregate, quantile int, at time.Time) {
	a.signals[quantile].raised = at
	d.raised[k] = a
	d.addLocked(newAlert(a, quantile, at), quantile)
}

func (d *Detector) endOneLocked(k key, a *aggregate, quantile int, at time.Time, reason string) {
	alert := newAlert(a, quantile, at)
	since := a.signals[quantile].raised.UTC()
	alert.Type, alert.Since, alert.Reason = Ended, &since, reason
	a.signals[quantile].raised, a.signals[quantile].high = time.Time{}, 0
	if !a.hasAlert() {
		delete(d.raised, k)
	}
	d.addLocked(alert, quantile)
}

// endLocked ends all alerts of an aggregate.
func (d *Detector) endLocked(k key, a *aggregate, at time.Time, reason string) {
	for q := range a.signals {
		if !a.signals[q].raised.IsZero() {
			d.endOneLocked(k, a, q, at, reason)
		}
	}
}

// evictedLocked ends the alerts of an aggregate that makes room.
func (d *Detector) evictedLocked(k key, a *aggregate) { d.endLocked(k, a, a.seen, ReasonNotMeasured) }

func (a *aggregate) hasAlert() bool {
	for q := range a.signals {
		if !a.signals[q].raised.IsZero() {
			return true
		}
	}
	return false
}

func (d *Detector) addLocked(a Alert, quantile int) {
	d.number++
	d.counts[countKey{a.Type, quantile}]++
	a.ID = fmt.Sprintf("%s-%d", d.instance, d.number)
	d.pending = append(d.pending, a)
}

// tell unlocks, writes new alerts to the log, and passes them on.
func (d *Detector) tell() {
	alerts := d.pending
	d.pending = nil
	d.mu.Unlock()
	for n := range alerts {
		if n < maxLines {
			alerts[n].log(d.cfg.Logger)
		}
		if d.cfg.Take != nil {
			d.cfg.Take(alerts[n])
		}
	}
	if more := len(alerts) - maxLines; more > 0 {
		d.cfg.Logger.Warn("more alerts were raised or have ended", "omitted", more)
	}
}

// Learn takes usual values from a history, so that a restarted monitor need not learn them. It reads twice the time
// that a signal has to be known: some of it may be missing.
func (d *Detector) Learn(dir string, now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return history.Read(dir, now.Add(-2*d.rule.learning()), now, func(r *history.Row) error {
		d.learnLocked(r, PartHosts, r.RTTs, r.Median, r.P95)
		for n := range r.Parts {
			if p := &r.Parts[n]; p.Name == PartPeers || p.Name == PartOneDirection {
				d.learnLocked(r, p.Name, p.RTTs, p.Median, p.P95)
			}
		}
		return nil
	})
}

// learnLocked takes the quantiles of a row.
func (d *Detector) learnLocked(r *history.Row, part string, count uint64, values ...int64) {
	if count < minRTTs {
		return
	}
	a := d.aggregateLocked(r.About(), part)
	a.seen = r.End
	for q := range a.signals {
		a.signals[q].learn(time.Duration(values[q]), max(0, r.End.Sub(r.Start)))
	}
}

// Describe implements prometheus.Collector.
func (d *Detector) Describe(ch chan<- *prometheus.Desc) {
	ch <- d.descs.ratio
	ch <- d.descs.alerts
}

// Collect implements prometheus.Collector.
func (d *Detector) Collect(ch chan<- prometheus.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for q := range quantiles {
		for _, event := range []Type{Raised, Ended} {
			ch <- prometheus.MustNewConstMetric(d.descs.alerts, prometheus.CounterValue,
				float64(d.counts[countKey{event, q}]), string(event), quantileText(q))
		}
		for _, a := range d.raised {
			if s := &a.signals[q]; !s.raised.IsZero() {
				ch <- prometheus.MustNewConstMetric(d.descs.ratio, prometheus.GaugeValue,
					float64(s.last)/float64(max(s.usualValue(), 1)),
					append(d.descs.by.Values(&a.prefix), a.part, quantileText(q))...)
			}
		}
	}
}
