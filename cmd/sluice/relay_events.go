package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"sluice/internal/webclient"
	"sluice/relay"
	"sluice/server/events"
)

// lastWords is how long the relay, when it ends, goes on sending events, or spans and metrics.
const lastWords = 5 * time.Second

// eventFlags are the flags of sluice relay about events.
type eventFlags struct {
	url     string
	secrets string // name of the file
	log     bool

	sender *events.Sender // set by open; nil without --event-url
}

func (f *eventFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.url, "event-url", "",
		"`URL` of an HTTP service that is told when sessions, publications and subscribers come and go")
	flags.StringVar(&f.secrets, "event-secret-file", "",
		"sign requests to the service with the secrets in this `file`, one a line (Standard Webhooks: whsec_...)")
	flags.BoolVar(&f.log, "event-log", false, "log these events")
}

func (f *eventFlags) check() error {
	if f.secrets != "" && f.url == "" {
		return errors.New("--event-secret-file signs what --event-url gets: name the service, too")
	}
	return checkURL("--event-url", f.url, webclient.CheckURL)
}

// newSender returns the sender of events to the service.
func (f *eventFlags) newSender() (*events.Sender, error) {
	secrets, err := webclient.ReadSecrets(f.secrets)
	if err != nil {
		return nil, fmt.Errorf("--event-secret-file: %w", err)
	}
	s, err := events.NewSender(events.Config{URL: f.url, Secrets: secrets})
	if err != nil {
		return nil, fmt.Errorf("--event-url: %w", err)
	}
	return s, nil
}

// open returns the function that takes events, or nil if nothing is to be done with them.
func (f *eventFlags) open() (func(relay.Event), error) {
	var takers []func(relay.Event)
	if f.log {
		takers = append(takers, events.NewLog(slog.Default()).Add)
	}
	if f.url != "" {
		var err error
		if f.sender, err = f.newSender(); err != nil {
			return nil, err
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

// metrics returns the metrics of the sender of events.
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
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	f.sender.Close(ctx)
}
