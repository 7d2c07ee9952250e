package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"sluice/internal/events"
	"sluice/relay"
)

// lastEvents is how long the relay, when it ends, goes on sending events.
const lastEvents = 5 * time.Second

// eventFlags are the flags of sluice relay about events.
type eventFlags struct {
	url string
	log bool

	sender *events.Sender // set by open; nil without --event-url
}

func (f *eventFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.url, "event-url", "",
		"`URL` of an HTTP service that is told when sessions, publications and subscribers come and go")
	flags.BoolVar(&f.log, "event-log", false, "log these events")
}

// open returns the function that takes events, or nil if nothing is to be done with them.
func (f *eventFlags) open() (func(relay.Event), error) {
	var takers []func(relay.Event)
	if f.log {
		takers = append(takers, events.NewLog(slog.Default()).Add)
	}
	if f.url != "" {
		var err error
		if f.sender, err = events.NewSender(events.Config{URL: f.url}); err != nil {
			return nil, fmt.Errorf("--event-url: %w", err)
		}
		takers = append(takers, f.sender.Add)
	}
	if len(takers) == 0 {
		return nil, nil
	}
	return func(e relay.Event) {
		for _, take := range takers {
			take(e)
		}
	}, nil
}

// metrics returns what the sender of events counts.
func (f *eventFlags) metrics() []prometheus.Collector {
	if f.sender == nil {
		return nil
	}
	return []prometheus.Collector{f.sender}
}

// close sends the last events.
func (f *eventFlags) close() {
	if f.sender == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastEvents)
	defer cancel()
	f.sender.Close(ctx)
}
