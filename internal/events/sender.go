package events

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/logs"
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
	// minPause and maxPause are the pauses between attempts. Each is twice as long as the one before.
	minPause = time.Second
	maxPause = time.Minute
	// maxAge is how long a batch is tried. A service that is restarted or replaced is back by then.
	maxAge = 10 * time.Minute
	// logInterval is how often failures are logged.
	logInterval = time.Minute
)

// Config is the configuration of a Sender. URL is required.
type Config struct {
	URL    string       // of the service: http or https
	Logger *slog.Logger // default: slog.Default()
}

// Sender sends events to an HTTP service.
type Sender struct {
	log      *slog.Logger
	client   *webclient.Client
	post     func(context.Context, []byte) error // tests replace it
	instance string                              // begins the ids of this process
	metrics  metrics
	failure  logs.Line
	stop     context.Context // done when nothing is to be sent any more
	cancel   context.CancelFunc
	ended    chan struct{} // closed when the goroutine has ended

	mu     sync.Mutex
	queue  chan record
	number uint64 // of the last event
	closed bool
}

// NewSender returns a Sender. It has to be closed.
func NewSender(cfg Config) (*Sender, error) {
	client, err := webclient.New(webclient.Config{URL: cfg.URL, Timeout: sendTimeout, MaxConns: 1})
	if err != nil {
		return nil, err
	}
	s := newSender(cmp.Or(cfg.Logger, slog.Default()), func(ctx context.Context, b []byte) error {
		_, err := client.Post(ctx, b)
		return err
	})
	s.client = client
	if client.Plaintext() {
		s.log.Warn("events are sent without encryption; use https", "url", client.Name())
	}
	go s.run()
	return s, nil
}

func newSender(log *slog.Logger, post func(context.Context, []byte) error) *Sender {
	s := &Sender{
		log: log, post: post, instance: rand.Text(), metrics: newMetrics(),
		ended: make(chan struct{}), queue: make(chan record, queueSize),
	}
	s.stop, s.cancel = context.WithCancel(context.Background())
	return s
}

// Add takes an event. It does not wait: if the queue is full, the event is lost.
func (s *Sender) Add(e relay.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++ // also of an event that is lost: the service sees the gap
	if s.closed {
		s.metrics.drop(droppedAtEnd, 1)
		return
	}
	select {
	case s.queue <- newRecord(&e, s.instance, s.number):
	default:
		s.metrics.drop(droppedQueue, 1)
		s.failed("events are lost: too many wait for the service")
	}
}

// Close sends the events that wait, until ctx is done. The ones that are left are lost.
func (s *Sender) Close(ctx context.Context) {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.queue)
	}
	s.mu.Unlock()
	select {
	case <-s.ended:
	case <-ctx.Done():
	}
	s.cancel()
	<-s.ended
	if s.client != nil {
		s.client.Close()
	}
}

func (s *Sender) run() {
	defer close(s.ended)
	for batch := s.next(); len(batch) > 0; batch = s.next() {
		if reason := s.send(batch); reason != "" {
			s.metrics.drop(reason, len(batch))
		} else {
			s.metrics.sent.Add(float64(len(batch)))
		}
	}
}

// next waits for events, and returns the ones that there are. It returns none when the queue was closed and is empty.
func (s *Sender) next() (batch []record) {
	for r := range s.queue {
		batch = append(batch, r)
		if len(batch) == maxBatch || len(s.queue) == 0 {
			break
		}
	}
	return batch
}

// send sends a batch, again and again. It returns why the batch is lost, or "".
func (s *Sender) send(batch []record) (lost string) {
	body, err := encode(batch)
	if err != nil {
		s.failed("events cannot be encoded", "err", err)
		return droppedRefused
	}
	pause := minPause
	for began := time.Now(); ; pause = min(2*pause, maxPause) {
		err := s.post(s.stop, body)
		switch {
		case err == nil:
			return ""
		case s.stop.Err() != nil:
			return droppedAtEnd
		case isPermanent(err):
			s.failed("events are lost: the service refuses them", "err", err)
			return droppedRefused
		case time.Since(began) >= maxAge:
			s.failed("events are lost: the service could not be reached for too long", "err", err)
			return droppedAge
		}
		s.failed("cannot send events; trying again", "err", err)
		if !s.pause(pause) {
			return droppedAtEnd
		}
	}
}

// pause waits for about d: relays that have lost the same service do not all come back at once. It returns false when
// nothing is to be sent any more.
func (s *Sender) pause(d time.Duration) bool {
	t := time.NewTimer(d/2 + mathrand.N(d/2))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.stop.Done():
		return false
	}
}

// isPermanent reports whether the service would refuse the same events again: a status of 4xx, except for those that
// are about time.
func isPermanent(err error) bool {
	e, ok := errors.AsType[*webclient.StatusError](err)
	return ok && e.Status/100 == 4 && e.Status != http.StatusRequestTimeout && e.Status != http.StatusTooManyRequests
}

// failed logs a failure, but not too often.
func (s *Sender) failed(text string, args ...any) {
	s.failure.Log(s.log, logInterval, slog.LevelError, text, args...)
}

// Describe implements prometheus.Collector.
func (s *Sender) Describe(ch chan<- *prometheus.Desc) { s.metrics.describe(ch) }

// Collect implements prometheus.Collector.
func (s *Sender) Collect(ch chan<- prometheus.Metric) { s.metrics.collect(ch) }
