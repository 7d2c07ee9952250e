package alert

import (
	"context"
	"log/slog"

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

// SenderConfig is the configuration of a Sender. URL is required.
type SenderConfig struct {
	URL     string            // of the service
	Secrets webclient.Secrets // sign the requests; none: nothing does
	Wait    context.Context   // of the queue, see [outbox.Config]
	Logger  *slog.Logger      // nil: slog.Default()
}

// NewSender returns a Sender. It has to be closed.
func NewSender(cfg SenderConfig) (*Sender, error) {
	return outbox.Open(webclient.Config{URL: cfg.URL, Secrets: cfg.Secrets}, outbox.Config[Alert]{
		What: "alerts", Flag: "--alert-url", Metric: "sluice_rtt_alerts", Size: queueSize, Batch: maxBatch,
		Wait: cfg.Wait, Logger: cfg.Logger,
	})
}
