package ipfix

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/logs"
	"sluice/rtt/report"
)

const (
	// Enterprise is the number that RFC 5612 reserves for examples.
	Enterprise = 32473
	// sendTimeout bounds how long a message waits for the network.
	sendTimeout = time.Second
	// logInterval is how often failures are logged.
	logInterval = time.Minute
)

// Config is the configuration of an Exporter. Address is required.
type Config struct {
	Address    string // UDP address of the collector
	Enterprise uint32 // whose number the elements have that IANA has not; 0: Enterprise
	Domain     uint32 // observation domain
	Replay     bool   // intervals come faster than time passes
	Logger     *slog.Logger
}

// Exporter sends intervals to a collector. It implements report.Sink, and is a prometheus.Collector of its counters. It
// is used on one goroutine at a time. A message that cannot be sent is lost, and counted.
type Exporter struct {
	*prometheus.CounterVec
	cfg     Config
	conn    net.Conn
	failure logs.Line
	pacer   pacer
	hurries atomic.Bool
	number  uint32 // of records that were sent
}

// New returns an Exporter. It has to be closed.
func New(cfg Config) (*Exporter, error) {
	cfg.Enterprise = cmp.Or(cfg.Enterprise, Enterprise)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	conn, err := net.Dial("udp", cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("%w: must be an address such as collector.example:4739", err)
	}
	e := &Exporter{cfg: cfg, conn: conn, CounterVec: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_rtt_ipfix_messages_total", Help: "Messages for the collector of --ipfix, by outcome.",
	}, []string{"result"})}
	for _, result := range []string{"sent", "refused", "failed"} {
		e.WithLabelValues(result)
	}
	e.hurries.Store(cfg.Replay)
	return e, nil
}

// Hurry makes the rest of an interval, and later ones, be sent faster than intervals ask for: the monitor ends. It may
// be called on any goroutine.
func (e *Exporter) Hurry() { e.hurries.Store(true) }

// Close closes the socket.
func (e *Exporter) Close() error { return e.conn.Close() }

// Sample and Flow do nothing.
func (e *Exporter) Sample(*report.Sample) error  { return nil }
func (e *Exporter) Flow(*report.FlowEvent) error { return nil }

// Flush does nothing.
func (e *Exporter) Flush() error { return nil }

// Interval sends an interval, after the templates: collectors forget these, or miss them. It takes half of the
// interval's time at most.
func (e *Exporter) Interval(i *report.Interval) error {
	messages := e.encode(i)
	gap := gapOf(len(messages), i.End.Sub(i.Start))
	e.pacer.begin()
	for _, b := range messages {
		if e.hurries.Load() {
			gap = leastGap
		}
		e.pacer.wait(gap)
		e.send(b)
	}
	return nil
}

// encode returns an interval as messages. Elements are described before the templates that have them: a collector may
// have to know the type of an element when it reads the template.
func (e *Exporter) encode(i *report.Interval) [][]byte {
	templates := map[uint16][]field{
		setIPv4: fields(i.Aggregation, 4), setIPv6: fields(i.Aggregation, 16), setGroups: fields(i.Aggregation, 0),
	}
	w := &writer{number: e.number, domain: e.cfg.Domain}
	w.begin()
	w.last.template(setElements, elementFields, 2, 0)
	for _, el := range elements {
		w.add(setElements, el.add(nil, e.cfg.Enterprise))
	}
	w.end()
	w.begin()
	for _, set := range []uint16{setIPv4, setIPv6, setGroups} {
		w.last.template(set, templates[set], 0, e.cfg.Enterprise)
	}
	for n := range i.Prefixes {
		r := &record{i, &i.Prefixes[n]}
		set := setOf(r.Prefix)
		var b []byte
		for _, f := range templates[set] {
			b = f.add(b, r)
		}
		w.add(set, b)
	}
	w.end()
	e.number = w.number // also of messages that are lost: the collector sees the gap
	return w.messages
}

// setOf returns the ID of the template of a prefix.
func setOf(p *report.Prefix) uint16 {
	switch {
	case p.Group != "":
		return setGroups
	case p.Addr().Is4():
		return setIPv4
	}
	return setIPv6
}

func (e *Exporter) send(b []byte) {
	setExportTime(b, time.Now())
	_ = e.conn.SetWriteDeadline(time.Now().Add(sendTimeout)) // fails only if the socket is closed
	_, err := e.conn.Write(b)
	if errors.Is(err, syscall.ECONNREFUSED) {
		// The error is about an earlier message: nobody listened. This one was not sent yet.
		e.failed("refused", err)
		_, err = e.conn.Write(b)
	}
	if err != nil {
		e.failed("failed", err)
		return
	}
	e.WithLabelValues("sent").Inc()
}

func (e *Exporter) failed(result string, err error) {
	e.WithLabelValues(result).Inc()
	e.failure.Log(e.cfg.Logger, logInterval, slog.LevelError, "IPFIX messages are lost", "err", err)
}
