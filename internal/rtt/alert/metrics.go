package alert

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/rtt/report"
)

// descs describe the metrics of alerts.
type descs struct {
	by            report.Keys
	ratio, alerts *prometheus.Desc
}

func newDescs(by report.Keys) descs {
	return descs{
		by: by,
		ratio: prometheus.NewDesc("sluice_rtt_alert_ratio",
			"How many times its usual value a quantile of RTTs is for which an alert is raised.",
			append(by.Names(), "part", "quantile"), nil),
		alerts: prometheus.NewDesc("sluice_rtt_alerts_total", "Alerts that were raised or have ended.",
			[]string{"event", "quantile"}, nil),
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

func quantileText(q int) string { return strconv.FormatFloat(quantiles[q], 'g', -1, 64) }
