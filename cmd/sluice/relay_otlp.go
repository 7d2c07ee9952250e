package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/internal/service"
	"sluice/server"
	"sluice/server/otlp"
)

// otlpFlag is the flag of sluice relay about OpenTelemetry.
type otlpFlag struct {
	url string

	exporter *otlp.Exporter // set by open; nil without --otlp-url
}

func (f *otlpFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.url, "otlp-url", "",
		"`URL` of a service that gets the metrics and a span of each request, by OTLP over HTTP; OTEL_TRACES_SAMPLER "+
			"chooses among the spans")
}

// open has a server make spans.
func (f *otlpFlag) open(c *server.Config) (err error) {
	if f.url == "" {
		return nil
	}
	if f.exporter, err = otlp.New(otlp.Config{URL: f.url, Version: cli.Version()}); err != nil {
		return cli.AsUsage(fmt.Errorf("--otlp-url: %w", err))
	}
	c.Relay.Session.Requested = f.exporter.Request
	return nil
}

// export sends metrics, too.
func (f *otlpFlag) export(metrics []prometheus.Collector) error {
	if f.exporter == nil {
		return nil
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(append(metrics, service.ProcessMetrics()...)...)
	return f.exporter.Export(registry)
}

// close sends the last spans and metrics.
func (f *otlpFlag) close() {
	if f.exporter == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	if err := f.exporter.Close(ctx); err != nil {
		slog.Warn("the last metrics or spans are lost", "flag", "--otlp-url", "err", err)
	}
}
