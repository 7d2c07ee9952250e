package events

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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
	// sendTimeout bounds an attempt.
	sendTimeout = 10 * time.Second
)

// Config is the configuration of a Sender. URL is required.
type Config struct {
	URL     string            // of the service: http or https
	Secrets webclient.Secrets // sign the requests; none: nothing does
	Logger  *slog.Logger      // default: slog.Default()
}

// Sender sends events to an HTTP service. It is a prometheus.Collector of its counters.
type Sender struct {
	prometheus.Collector
	client   *webclient.Client
	instance string // begins the ids of this process
	box      *outbox.Box[record]

	mu     sync.Mutex // keeps events in the order of their numbers
	number uint64     // of the last event
}

// NewSender returns a Sender. It has to be closed.
func NewSender(cfg Config) (*Sender, error) {
	client, err := webclient.New(webclient.Config{
		URL: cfg.URL, Timeout: sendTimeout, MaxConns: 1, Secrets: cfg.Secrets,
	})
	if err != nil {
		return nil, err
	}
	log := cmp.Or(cfg.Logger, slog.Default())
	if client.Plaintext() {
		log.Warn("events are sent without encryption; use https", "url", client.Name())
	}
	s := newSender(log, func(ctx context.Context, b []byte) error {
		_, err := client.Post(ctx, b)
		return err
	})
	s.client = client
	return s, nil
}

func newSender(log *slog.Logger, post func(context.Context, []byte) error) *Sender {
	box := outbox.New(outbox.Config[record]{
		What: "events", Flag: "--event-url", Metric: "sluice_events", Size: queueSize, Batch: maxBatch,
		Encode: encode, Post: post, Logger: log,
	})
	return &Sender{Collector: box, instance: rand.Text(), box: box}
}

// Add takes an event. It does not wait: if the queue is full, the event is lost, and the service sees the gap.
func (s *Sender) Add(e relay.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	s.box.Add(newRecord(&e, s.instance, s.number))
}

// Close sends the events that wait, until ctx is done. The ones that are left are lost.
func (s *Sender) Close(ctx context.Context) {
	s.box.Close(ctx)
	if s.client != nil {
		s.client.Close()
	}
}
