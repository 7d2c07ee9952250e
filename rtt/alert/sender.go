package alert

import (
	"context"

	"sluice/internal/outbox"
	"sluice/internal/webclient"
)

const (
	// queueSize is how many alerts wait for the service. One takes less than 1 KiB.
	queueSize = 4096
	// maxBatch is how many alerts are sent together.
	maxBatch = 100
)

// Sender sends alerts to an HTTP service. It is a prometheus.Collector of its counters.
type Sender = outbox.Box[Alert]

// NewSender returns a Sender. It has to be closed. service has its URL, and secrets if requests are to be signed. wait
// is as in [outbox.Config].
func NewSender(service webclient.Config, wait context.Context) (*Sender, error) {
	return outbox.Open(service, outbox.Config[Alert]{
		What: "alerts", Flag: "--alert-url", Metric: "sluice_rtt_alerts", Size: queueSize, Batch: maxBatch, Wait: wait,
	})
}
