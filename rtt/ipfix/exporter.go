package ipfix

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

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

	// mostGap is the time between two messages if the interval is long enough: some hundred prefixes take no longer
	// than people notice.
	mostGap = 10 * time.Millisecond
	// leastGap is the time between two messages of a monitor that ends, or of a replay.
	leastGap = 100 * time.Microsecond
	// burst is how many messages may make up for time that was lost. By default a socket of Linux has room for 92 of
	// full length (net.core.rmem_default, 212,992 bytes; such a packet takes 2,304).
	burst = 64
)

// Config is the configuration of an Exporter. Address is required.
type Config struct {
	Address    string // UDP address of the collector
	Enterprise uint32 // whose number the elements have that IANA has not; 0: Enterprise
	Replay     bool   // intervals come faster than time passes
	Logger     *slog.Logger
}

// Exporter sends intervals to a collector, and is a prometheus.Collector of its counters. It is used on one goroutine
// at a time. A message that cannot be sent is lost, and counted.
type Exporter struct {
	*prometheus.CounterVec
	cfg     Config
	conn    net.Conn
	failure logs.Line
	pace    *rate.Limiter // messages sent at once have to fit into the collector's socket buffer
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
	pace := rate.NewLimiter(rate.Every(leastGap), burst)
	e := &Exporter{cfg: cfg, conn: conn, pace: pace, CounterVec: prometheus.NewCounterVec(prometheus.CounterOpts{
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
func (e *Exporter) Hurry() {
	e.hurries.Store(true)
	e.pace.SetLimit(rate.Every(leastGap))
}

// Close closes the socket.
func (e *Exporter) Close() error { return e.conn.Close() }

// Interval sends an interval, after the templates: collectors forget these, or miss them. It takes half of the
// interval's time at most, so that all has been sent when the next interval comes.
func (e *Exporter) Interval(i *report.Interval) error {
	messages := e.encode(i)
	e.pace.SetLimit(rate.Every(min(mostGap, i.End.Sub(i.Start)/2/time.Duration(len(messages)))))
	if e.hurries.Load() { // maybe only now
		e.pace.SetLimit(rate.Every(leastGap))
	}
	if idle := int(e.pace.Tokens()) - 1; idle > 0 { // the time before the interval is not made up for
		e.pace.AllowN(time.Now(), idle)
	}
	for _, b := range messages {
		_ = e.pace.Wait(context.Background()) // it fails only with the context
		e.send(b)
	}
	return nil
}

// encode returns an interval as messages. Elements are described before the templates that have them: a collector may
// have to know the type of an element when it reads the template.
func (e *Exporter) encode(i *report.Interval) [][]byte {
	w := &writer{records: e.number}
	w.begin()
	w.template(setElements, elementFields, 2)
	for _, d := range descriptions() {
		w.record(setElements, append(binary.BigEndian.AppendUint32(nil, e.cfg.Enterprise), d...))
	}
	w.end()
	w.begin()
	templates := make(map[uint16][]field)
	for _, length := range []int{4, 16, 0} { // of addresses; groups have none
		set := setPrefixes + uint16(length)
		templates[set] = fields(i.Aggregation, length, e.cfg.Enterprise)
		w.template(set, templates[set], 0)
	}
	for n := range i.Prefixes {
		r, set := &record{i, &i.Prefixes[n]}, uint16(setPrefixes)
		if r.Group == "" {
			set += uint16(r.Prefix.Addr().BitLen() / 8)
		}
		var b []byte
		for _, f := range templates[set] {
			if f.add != nil {
				b = f.add(b, r)
			}
		}
		w.record(set, b)
	}
	w.end()
	e.number = w.records // also of messages that are lost: the collector sees the gap
	return w.messages
}

func (e *Exporter) send(b []byte) {
	binary.BigEndian.PutUint32(b[4:], uint32(time.Now().Unix()))
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
