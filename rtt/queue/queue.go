package queue

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"sluice/internal/logs"
	"sluice/rtt/report"
)

const (
	// maxPrefixes bounds the prefixes of intervals that wait or are taken, if there is more than one. With histograms,
	// a prefix has 1 to 5 kB.
	maxPrefixes = 1 << 16
	// maxIntervals is how many these intervals are, however few prefixes they have.
	maxIntervals = 64
	// logInterval is how often losses are logged.
	logInterval = time.Minute
)

// Config is the configuration of a Queue. To and Take are required.
type Config struct {
	To     string                       // the flag that wants the intervals, without dashes, for the log and the metric
	Take   func(*report.Interval) error // an error ends the measurement with the next interval
	Wait   context.Context              // Interval waits for room until it is done; nil: Interval does not wait
	Logger *slog.Logger                 // nil: slog.Default()
}

// Queue passes intervals on. It is a report.Sink, used on one goroutine at a time, and a prometheus.Collector of its
// losses.
type Queue struct {
	report.IntervalsOnly
	prometheus.Counter
	cfg     Config
	loss    logs.Line
	room    *semaphore.Weighted // in prefixes; an interval has at least maxPrefixes / maxIntervals of it
	waiting chan *report.Interval
	outcome
}

// New returns a Queue. It has to be closed.
func New(cfg Config) *Queue {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	q := &Queue{
		cfg: cfg, room: semaphore.NewWeighted(maxPrefixes), outcome: outcome{ended: make(chan struct{})},
		waiting: make(chan *report.Interval, maxIntervals), // a send does not wait: there is room
		Counter: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_rtt_intervals_lost_total", Help: "Intervals that were not written or sent, by flag.",
			ConstLabels: prometheus.Labels{"to": cfg.To},
		}),
	}
	go q.run()
	return q
}

func (q *Queue) run() {
	defer close(q.ended)
	for i := range q.waiting {
		if !q.failed() {
			q.fail(q.cfg.Take(i))
		}
		q.room.Release(roomFor(i))
	}
}

// roomFor returns the room that an interval takes. One that is larger than the queue takes all of it.
func roomFor(i *report.Interval) int64 {
	return int64(min(max(len(i.Prefixes), maxPrefixes/maxIntervals), maxPrefixes))
}

// Interval passes an interval on, which must not change any more.
func (q *Queue) Interval(i *report.Interval) error {
	if err := q.tell(); err != nil {
		return err
	}
	if !q.acquire(roomFor(i)) {
		q.Inc()
		q.loss.Log(q.cfg.Logger, logInterval, slog.LevelError,
			"an interval is lost: the last ones are not written or sent yet; use longer ones (--aggregate)",
			"flag", "--"+q.cfg.To, "prefixes", len(i.Prefixes))
		return nil
	}
	q.waiting <- i
	return nil
}

func (q *Queue) acquire(room int64) bool {
	return q.room.TryAcquire(room) || q.cfg.Wait != nil && q.room.Acquire(q.cfg.Wait, room) == nil
}

// Close waits until all intervals were taken. It returns the error of Take, unless Interval has.
func (q *Queue) Close() error {
	close(q.waiting)
	return q.end()
}
