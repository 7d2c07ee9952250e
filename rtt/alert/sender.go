package alert

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"sluice/internal/outbox"
	"sluice/internal/webclient"
)

const (
	// queueSize is how many alerts wait for the service. One takes less than 1 KiB.
	queueSize = 4096
	// maxBatch is how many alerts are sent together.
	maxBatch = 100
	// sendTimeout bounds an attempt.
	sendTimeout = 10 * time.Second
)

// Sender sends alerts to an HTTP service. It is a prometheus.Collector of its counters.
type Sender struct {
	*outbox.Box[Alert]
	client *webclient.Client
}

// SenderConfig is the configuration of a Sender. URL is required.
type SenderConfig struct {
	URL     string            // of the service
	Secrets webclient.Secrets // sign the requests; none: nothing does
	Wait    context.Context   // of the queue, see [outbox.Config]
	Logger  *slog.Logger      // nil: slog.Default()
}

// NewSender returns a Sender. It has to be closed.
func NewSender(cfg SenderConfig) (*Sender, error) {
	client, err := webclient.New(webclient.Config{
		URL: cfg.URL, Timeout: sendTimeout, MaxConns: 1, Secrets: cfg.Secrets,
	})
	if err != nil {
		return nil, err
	}
	log := cmp.Or(cfg.Logger, slog.Default())
	if client.Plaintext() {
		log.Warn("alerts are sent without encryption; use https", "url", client.Name())
	}
	return &Sender{client: client, Box: outbox.New(outbox.Config[Alert]{
		What: "alerts", Flag: "--alert-url", Metric: "sluice_rtt_alerts", Size: queueSize, Batch: maxBatch,
		Encode: encode, Wait: cfg.Wait, Logger: log,
		Post: func(ctx context.Context, body []byte) error {
			_, err := client.Post(ctx, body)
			return err
		},
	})}, nil
}

// Close sends the alerts that wait, until ctx is done.
func (s *Sender) Close(ctx context.Context) {
	s.Box.Close(ctx)
	s.client.Close()
}

func encode(batch []Alert) ([]byte, error) {
	return json.Marshal(struct {
		Alerts []Alert `json:"alerts"`
	}{batch})
}
