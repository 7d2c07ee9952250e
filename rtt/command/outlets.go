package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/cli"
	"sluice/rtt/alert"
	"sluice/rtt/history"
	"sluice/rtt/ipfix"
	"sluice/rtt/otlp"
	"sluice/rtt/output"
	"sluice/rtt/queue"
	"sluice/rtt/report"
)

// lastMessages is how long the monitor, when it ends, goes on sending to services. After a replay it is lastOfReplay,
// unless the user interrupts it.
const (
	lastMessages = 10 * time.Second
	lastOfReplay = 10 * time.Minute
)

// outlets are where measurements go.
type outlets struct {
	report.Tee
	// wait is set in a replay, which makes intervals faster than a service takes them: it waits for the service until
	// wait is done.
	wait    context.Context
	metrics []prometheus.Collector // of the outlets themselves
	closers []func() error
}

// close closes the outlets, the last one first.
func (o *outlets) close() error {
	var errs []error
	for _, fn := range slices.Backward(o.closers) {
		errs = append(errs, fn())
	}
	return errors.Join(errs...)
}

// openOutput opens the file of --write. A replay waits for it, and measuring does not.
func (o *outlets) openOutput(f *rttFlags, env *cli.Environment) error {
	hangups := takeHangups() // before there is a file that somebody may move away
	out, err := output.New(output.Format(f.format), f.output(env))
	if err != nil {
		return err
	}
	o.closers = append(o.closers, out.Close)
	reopen := out.Reopen
	switch {
	case f.pcap != "":
		o.Tee = append(o.Tee, out)
	case f.aggregate > 0:
		o.queue("write", flushing{out}.Interval)
	default:
		q := queue.NewEvents(queue.EventsConfig{To: "write", Sink: out})
		reopen = func() {
			out.Reopen()
			q.Wake()
		}
		o.Tee = append(o.Tee, q)
		o.metrics = append(o.metrics, q)
		o.closers = append(o.closers, q.Close)
	}
	o.closing(hangups.call(reopen))
	return nil
}

// flushing is a Writer that flushes each interval: nobody else does behind a queue.
type flushing struct{ *output.Writer }

// Interval writes an interval. It flushes before, too: after Reopen, the interval is for the new file.
func (w flushing) Interval(i *report.Interval) error {
	if err := w.Flush(); err != nil {
		return err
	}
	if err := w.Writer.Interval(i); err != nil {
		return err
	}
	return w.Flush()
}

func (o *outlets) openHistory(f *rttFlags) error {
	if f.history == "" {
		return nil
	}
	limits, err := f.historyLimits()
	if err != nil {
		return err
	}
	h, err := history.NewWriter(f.history, limits, slog.Default())
	if err != nil {
		return fmt.Errorf("--history: %w", err)
	}
	o.closers = append(o.closers, h.Close)
	o.queue("history", h.Interval)
	return nil
}

func (o *outlets) openAlerts(f *rttFlags) error {
	if f.alerts.factor == 0 {
		return nil
	}
	cfg := alert.Config{Factor: f.alerts.factor, Lasting: f.alerts.lasting, By: f.keys()}
	if f.alerts.url != "" {
		sender, err := f.alerts.sender(o.wait)
		if err != nil {
			return err
		}
		cfg.Take = sender.Add
		o.metrics = append(o.metrics, sender)
		o.closing(o.last(sender))
	}
	d := alert.New(cfg)
	if f.history != "" && f.pcap == "" {
		if err := d.Learn(f.history, time.Now()); err != nil {
			slog.Warn("alerts begin without usual values of the history", "err", err)
		}
	}
	o.Tee = append(o.Tee, d)
	o.metrics = append(o.metrics, d)
	o.closers = append(o.closers, d.Close) // before the sender is closed
	return nil
}

func (o *outlets) openOTLP(f *rttFlags, env *cli.Environment) error {
	if f.otlpURL == "" {
		return nil
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	e, err := otlp.New(otlp.Config{
		URL: f.otlpURL, Headers: env.Getenv("OTEL_EXPORTER_OTLP_HEADERS"), Version: cli.VersionText("sluice"),
		Host: host, Interfaces: f.cfg.Interfaces, Wait: o.wait,
	})
	if err != nil {
		return cli.Usage("--otlp-url: %w", err)
	}
	o.metrics = append(o.metrics, e)
	o.closing(o.last(e))
	o.queue("otlp-url", e.Interval)
	return nil
}

func (o *outlets) openIPFIX(f *rttFlags) error {
	if f.ipfix == "" {
		return nil
	}
	e, err := ipfix.New(ipfix.Config{Address: f.ipfix, Enterprise: f.ipfixEnterprise, Replay: o.wait != nil})
	if err != nil {
		return fmt.Errorf("--ipfix: %w", err)
	}
	o.metrics = append(o.metrics, e)
	o.closers = append(o.closers, e.Close)
	o.queue("ipfix", e.Interval)
	o.closing(e.Hurry) // first
	return nil
}

// queue has intervals taken for a flag: measuring does not wait for it.
func (o *outlets) queue(flag string, take func(*report.Interval) error) {
	q := queue.New(queue.Config{To: flag, Take: take, Wait: o.wait})
	o.Tee = append(o.Tee, q)
	o.metrics = append(o.metrics, q)
	o.closers = append(o.closers, q.Close)
}

// closing has a function called that cannot fail, before those that were named earlier.
func (o *outlets) closing(fn func()) {
	o.closers = append(o.closers, func() error {
		fn()
		return nil
	})
}

// last returns a function that closes a sender to a service.
func (o *outlets) last(s interface{ Close(context.Context) }) func() {
	return func() {
		ctx, last := o.wait, lastOfReplay
		if ctx == nil || ctx.Err() != nil {
			ctx, last = context.Background(), lastMessages
		}
		ctx, cancel := context.WithTimeout(ctx, last)
		defer cancel()
		s.Close(ctx)
	}
}
