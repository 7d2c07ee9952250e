package queue

import (
	"cmp"
	"log/slog"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/logs"
	"sluice/rtt/report"
)

const (
	// maxEvents is how many events wait. Each takes about 250 bytes, and as many may be on their way.
	maxEvents = 1 << 16
	// keepEvents is how many events wait until they are passed on, if the sink is fast enough. A list with room for
	// four times as many is kept for later events.
	keepEvents = 1 << 10
)

// EventsConfig is the configuration of Events. To and Sink are required.
type EventsConfig struct {
	To     string       // the flag that wants the events, without dashes, for the log and the metric
	Sink   report.Sink  // takes them, and is used on one goroutine at a time
	Logger *slog.Logger // nil: slog.Default()
}

// Events passes RTTs and flow events on. It is a report.Sink, used on one goroutine at a time, and a
// prometheus.Collector of its losses.
type Events struct {
	prometheus.Counter
	cfg  EventsConfig
	loss logs.Line
	lost int           // since the last Flush
	wake chan struct{} // has a value if the goroutine has something to do

	outcome // its lock guards the fields below, too
	waiting []event
	closed  bool
}

// event is an RTT, or a flow event. It has copies: the values belong to who passes them.
type event struct {
	sample report.Sample
	dns    report.DNS
	quic   report.QUIC
	flow   *report.FlowEvent // nil: an RTT
}

// NewEvents returns Events. They have to be closed.
func NewEvents(cfg EventsConfig) *Events {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	q := &Events{
		cfg: cfg, wake: make(chan struct{}, 1), outcome: outcome{ended: make(chan struct{})},
		Counter: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_rtt_reports_lost_total",
			Help: "RTTs and flow events that were not written because the sink of the flag is too slow, by flag. " +
				"Those that do not reach the process are the event events-lost of sluice_rtt_events_total.",
			ConstLabels: prometheus.Labels{"to": cfg.To},
		}),
	}
	go q.run()
	return q
}

// run passes on waiting events, whenever it is woken up.
func (q *Events) run() {
	defer close(q.ended)
	var list []event
	for range q.wake {
		var closed bool
		list, closed = q.swap(list)
		if err := q.pass(list); err != nil {
			q.fail(err)
			return
		}
		if closed {
			return
		}
	}
}

// swap takes the waiting events, and gives room for the next.
func (q *Events) swap(room []event) (list []event, closed bool) {
	clear(room) // of pointers
	if cap(room) > 4*keepEvents {
		room = nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	list, q.waiting = q.waiting, room[:0]
	return list, q.closed
}

func (q *Events) pass(list []event) error {
	for i := range list {
		if err := list[i].pass(q.cfg.Sink); err != nil {
			return err
		}
	}
	return q.cfg.Sink.Flush()
}

func (e *event) pass(to report.Sink) error {
	if e.flow != nil {
		return to.Flow(e.flow)
	}
	if e.sample.DNS != nil {
		e.sample.DNS = &e.dns
	}
	if e.sample.QUIC != nil {
		e.sample.QUIC = &e.quic
	}
	return to.Sample(&e.sample)
}

// Sample passes an RTT on.
func (q *Events) Sample(s *report.Sample) error {
	e := event{sample: *s}
	if s.DNS != nil {
		e.dns = *s.DNS
	}
	if s.QUIC != nil {
		e.quic = *s.QUIC
	}
	return q.add(e)
}

// Flow passes a flow event on.
func (q *Events) Flow(f *report.FlowEvent) error {
	flow := *f
	return q.add(event{flow: &flow})
}

func (q *Events) add(e event) error {
	many, err := q.enqueue(e)
	if many {
		q.Wake()
		runtime.Gosched() // else all that the ring of the kernel has would wait here, where it takes twice the memory
	}
	return err
}

// enqueue reports whether so many events wait that they should be passed on now.
func (q *Events) enqueue(e event) (many bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.tellLocked(); err != nil {
		return false, err
	}
	if len(q.waiting) == maxEvents {
		q.lost++
		return false, nil
	}
	q.waiting = append(q.waiting, e)
	return len(q.waiting)%keepEvents == 0, nil
}

// Interval does nothing: intervals have a Queue.
func (q *Events) Interval(*report.Interval) error { return nil }

// Flush has waiting events passed on, and counts lost ones.
func (q *Events) Flush() error {
	q.countLost()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil && len(q.waiting) > 0 {
		q.Wake()
	}
	return q.tellLocked()
}

func (q *Events) countLost() {
	if q.lost == 0 {
		return
	}
	q.Counter.Add(float64(q.lost))
	q.loss.Log(q.cfg.Logger, logInterval, slog.LevelError,
		"RTTs and flow events are lost: the last ones are not written yet; write to a faster file, or use --aggregate",
		"flag", "--"+q.cfg.To, "reports", q.lost)
	q.lost = 0
}

// Wake has the Sink flushed soon, even if nothing waits. It may be called on any goroutine.
func (q *Events) Wake() {
	select {
	case q.wake <- struct{}{}:
	default: // a wake-up is waiting
	}
}

// Close waits until all events were passed on. It returns the error of the Sink, unless another method has.
func (q *Events) Close() error {
	q.countLost()
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.Wake()
	return q.end()
}
