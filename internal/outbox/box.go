package outbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/logs"
	"sluice/internal/webclient"
)

const (
	// minPause and maxPause are the pauses between attempts. Each is twice as long as the last.
	minPause = time.Second
	maxPause = time.Minute
	// maxAge is how long a batch is tried. A service that is restarted or replaced is back by then.
	maxAge = 10 * time.Minute
	// sendTimeout bounds an attempt.
	sendTimeout = 10 * time.Second
	// logInterval is how often failures are logged.
	logInterval = time.Minute
)

// Config is the configuration of a Box. What, Flag, Metric, Size and Batch are required.
type Config[T any] struct {
	What   string // the values, in log lines and in the help of metrics
	Flag   string // the flag that has named the service
	Metric string // how the names of the metrics begin

	Size     int         // how many values wait
	Batch    int         // how many are sent together
	MaxBytes int         // how many bytes the values that wait have, if there is more than one. 0: no limit
	Bytes    func(T) int // how many bytes a value has. Only for MaxBytes

	// Wait makes Add wait for room until it is done, or the service was away for maxAge: for values that come faster
	// than time passes, as of a capture.
	Wait context.Context

	Encode    func([]T) ([]byte, error) // default: a JSON object with the values in the field named by What
	Answered  func(answer []byte) error // the mistake in an answer with a status of 2xx. Default: there is none
	Permanent func(error) bool          // whether another attempt would fail, too. Default: [IsPermanent]
	Logger    *slog.Logger              // default: slog.Default()
}

// Box sends values to a service. Its methods may be called on any goroutine.
type Box[T any] struct {
	cfg     Config[T]
	post    func(context.Context, []byte) error // makes an attempt
	client  *webclient.Client                   // that post uses, if Open has made it
	metrics metrics
	failure logs.Line
	stop    context.Context // done when nothing must be sent any more
	cancel  context.CancelFunc
	ended   chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex // guards the rest
	changed *sync.Cond // the rest has changed, or Config.Wait is done
	queue   []T
	bytes   int  // that the queue has
	away    bool // the service could not be reached for maxAge: nobody waits for room
	closed  bool
}

// Open returns a Box for a service: service names it, and how its requests look. The Box has to be closed.
func Open[T any](service webclient.Config, cfg Config[T]) (*Box[T], error) {
	service.Timeout, service.MaxConns = sendTimeout, 1
	client, err := webclient.New(service)
	if err != nil {
		return nil, err
	}
	if client.Plaintext() {
		log := cmp.Or(cfg.Logger, slog.Default())
		log.Warn(cfg.What+" are sent without encryption; use https", "url", client.Name())
	}
	b := New(cfg, func(ctx context.Context, body []byte) error {
		answer, err := client.Post(ctx, body)
		if err != nil || cfg.Answered == nil {
			return err
		}
		return cfg.Answered(answer)
	})
	b.client = client
	return b, nil
}

// New returns a Box that sends by post, which takes a bounded time. It has to be closed.
func New[T any](cfg Config[T], post func(context.Context, []byte) error) *Box[T] {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if cfg.Permanent == nil {
		cfg.Permanent = IsPermanent
	}
	if cfg.Encode == nil {
		cfg.Encode = func(batch []T) ([]byte, error) { return json.Marshal(map[string][]T{cfg.What: batch}) }
	}
	b := &Box[T]{
		cfg: cfg, post: post, metrics: newMetrics(cfg.Metric, cfg.What, cfg.Flag),
		ended: make(chan struct{}),
	}
	b.changed = sync.NewCond(&b.mu)
	b.stop, b.cancel = context.WithCancel(context.Background())
	if cfg.Wait != nil {
		context.AfterFunc(cfg.Wait, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.changed.Broadcast()
		})
	}
	go b.run()
	return b
}

// Add takes a value. It does not wait, unless Config.Wait says so: if the queue is full, the value is lost.
func (b *Box[T]) Add(v T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.closed && !b.fits(v) && b.waits() {
		b.changed.Wait()
	}
	switch {
	case b.closed:
		b.metrics.drop(DroppedAtEnd, 1)
	case !b.fits(v):
		b.metrics.drop(DroppedQueue, 1)
		b.failed("lost: too many wait for the service")
	default:
		b.queue = append(b.queue, v)
		b.bytes += b.size(v)
		b.changed.Broadcast()
	}
}

func (b *Box[T]) waits() bool { return b.cfg.Wait != nil && b.cfg.Wait.Err() == nil && !b.away }

func (b *Box[T]) fits(v T) bool {
	if len(b.queue) == 0 || b.cfg.MaxBytes == 0 {
		return len(b.queue) < b.cfg.Size
	}
	return len(b.queue) < b.cfg.Size && b.bytes+b.size(v) <= b.cfg.MaxBytes
}

func (b *Box[T]) size(v T) int {
	if b.cfg.Bytes == nil {
		return 0
	}
	return b.cfg.Bytes(v)
}

// Close sends the values that wait, until ctx is done. The ones that are left are lost.
func (b *Box[T]) Close(ctx context.Context) {
	b.mu.Lock()
	b.closed = true
	b.changed.Broadcast()
	b.mu.Unlock()
	select {
	case <-b.ended:
	case <-ctx.Done():
	}
	b.cancel()
	<-b.ended
	if b.client != nil {
		b.client.Close()
	}
}

func (b *Box[T]) run() {
	defer close(b.ended)
	for batch := b.next(); len(batch) > 0; batch = b.next() {
		reason := b.send(batch)
		b.setAway(reason == DroppedAge)
		if reason != "" {
			b.metrics.drop(reason, len(batch))
		} else {
			b.metrics.sent.Add(float64(len(batch)))
		}
	}
}

func (b *Box[T]) setAway(away bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = away
	b.changed.Broadcast()
}

// next waits for values, and returns the ones that there are. It returns none when the box was closed and the queue is
// empty.
func (b *Box[T]) next() (batch []T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.queue) == 0 && !b.closed {
		b.changed.Wait()
	}
	n := min(len(b.queue), b.cfg.Batch)
	batch = slices.Clone(b.queue[:n])
	b.queue = slices.Delete(b.queue, 0, n)
	for _, v := range batch {
		b.bytes -= b.size(v)
	}
	b.changed.Broadcast()
	return batch
}

// send sends a batch, again and again. It returns why the batch is lost, or "".
func (b *Box[T]) send(batch []T) (lost string) {
	body, err := b.cfg.Encode(batch)
	if err != nil {
		b.failed("lost: they cannot be encoded", "err", err)
		return DroppedRefused
	}
	pause := minPause
	for began := time.Now(); ; pause = min(2*pause, maxPause) {
		err := b.post(b.stop, body)
		switch {
		case err == nil || isConfirmed(err):
			return ""
		case b.stop.Err() != nil:
			return DroppedAtEnd
		case b.cfg.Permanent(err):
			b.failed("lost: the service refuses them", "err", err)
			return DroppedRefused
		case time.Since(began) >= maxAge:
			b.failed("lost: the service could not be reached for too long", "err", err)
			return DroppedAge
		}
		b.failed("not sent yet; trying again", "err", err)
		if !b.pause(pause) {
			return DroppedAtEnd
		}
	}
}

// pause waits for about d: processes that have lost the same service do not all come back at once. It returns false
// when nothing is to be sent any more.
func (b *Box[T]) pause(d time.Duration) bool {
	t := time.NewTimer(d/2 + rand.N(d/2))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-b.stop.Done():
		return false
	}
}

// isConfirmed reports whether the service has taken the values, although its answer cannot be read. They are not sent
// again then: the service might count them twice.
func isConfirmed(err error) bool {
	_, ok := errors.AsType[*webclient.BodyError](err)
	return ok
}

// IsPermanent reports whether the service would refuse the same values again: a status of 4xx, except for those that
// are about time.
func IsPermanent(err error) bool {
	e, ok := errors.AsType[*webclient.StatusError](err)
	return ok && e.Status/100 == 4 && e.Status != http.StatusRequestTimeout && e.Status != http.StatusTooManyRequests
}

// failed logs the fate of values, but not too often.
func (b *Box[T]) failed(what string, args ...any) {
	b.failure.Log(b.cfg.Logger, logInterval, slog.LevelError, b.cfg.What+" are "+what, args...)
}

// Describe implements prometheus.Collector.
func (b *Box[T]) Describe(ch chan<- *prometheus.Desc) {
	b.metrics.sent.Describe(ch)
	b.metrics.dropped.Describe(ch)
}

// Collect implements prometheus.Collector.
func (b *Box[T]) Collect(ch chan<- prometheus.Metric) {
	b.metrics.sent.Collect(ch)
	b.metrics.dropped.Collect(ch)
}
