package events

import (
	"crypto/rand"
	"log/slog"
	"sync"

	"sluice/internal/outbox"
	"sluice/internal/webclient"
	"sluice/relay"
)

// Limits of a Sender.
const (
	// queueSize is how many events wait. An event takes less than 1 KiB, and with names of the largest size 5 KiB.
	queueSize = 4096
	// maxBatch is how many events are sent together.
	maxBatch = 100
)

// Config is the configuration of a Sender. URL is required.
type Config struct {
	URL     string            // of the service: http or https
	Secrets webclient.Secrets // sign the requests; none: nothing does
	Logger  *slog.Logger      // default: slog.Default()
}

// Sender sends events to an HTTP service. It is a prometheus.Collector of its counters. Close sends those that wait.
type Sender struct {
	*outbox.Box[record]
	instance string // begins the ids of this process

	mu     sync.Mutex // keeps events in the order of their numbers
	number uint64     // of the last event
}

// NewSender returns a Sender. It has to be closed.
func NewSender(cfg Config) (*Sender, error) {
	box, err := outbox.Open(webclient.Config{URL: cfg.URL, Secrets: cfg.Secrets}, boxConfig(cfg.Logger))
	if err != nil {
		return nil, err
	}
	return &Sender{Box: box, instance: rand.Text()}, nil
}

func boxConfig(log *slog.Logger) outbox.Config[record] {
	return outbox.Config[record]{
		What: "events", Flag: "--event-url", Metric: "sluice_events", Size: queueSize, Batch: maxBatch, Logger: log,
	}
}

// Add takes an event. It does not wait: if the queue is full, the event is lost, and the service sees the gap.
func (s *Sender) Add(e relay.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	s.Box.Add(newRecord(&e, s.instance, s.number))
}
