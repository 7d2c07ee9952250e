package alert

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/rtt/report"
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
			"Quantiles of RTTs with an alert, as multiples of their usual values.",
			append(by.Names(), "part", "quantile"), nil),
		alerts: prometheus.NewDesc("sluice_rtt_alerts_total", "Alerts that were raised or have ended.",
			[]string{"event", "quantile"}, nil),
	}
}

func quantileText(q int) string { return strconv.FormatFloat(quantiles[q], 'g', -1, 64) }
