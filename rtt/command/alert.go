package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"sluice/internal/bounds"
	"sluice/internal/cli"
	"sluice/internal/webclient"
	"sluice/rtt/alert"
)

// alertFlags are the flags of sluice-rtt about alerts.
type alertFlags struct {
	factor  float64
	lasting time.Duration
	url     string
	secrets string // name of the file
}

func (f *alertFlags) register(flags *pflag.FlagSet) {
	flags.Float64Var(&f.factor, "alert-factor", 0,
		"tell when the median or 95th percentile of an aggregate is this many `times` its usual value; 0: do not")
	flags.DurationVar(&f.lasting, "alert-for", 5*time.Minute, "tell when it has been so for this `time`")
	flags.StringVar(&f.url, "alert-url", "", "`URL` of an HTTP service that is told, too")
	flags.StringVar(&f.secrets, "alert-secret-file", "",
		"sign requests to the service with the secrets in this `file`, one a line (Standard Webhooks: whsec_...)")
}

// sender returns the sender of alerts to the service. wait is as in outbox.Config.
func (f *alertFlags) sender(wait context.Context) (*alert.Sender, error) {
	secrets, err := webclient.ReadSecrets(f.secrets)
	if err != nil {
		return nil, fmt.Errorf("--alert-secret-file: %w", err)
	}
	s, err := alert.NewSender(webclient.Config{URL: f.url, Secrets: secrets}, wait)
	if err != nil {
		return nil, cli.Usage("--alert-url: %w", err)
	}
	return s, nil
}

func (f *alertFlags) check(aggregate float64) error {
	switch {
	case f.factor == 0 && f.url != "":
		return errors.New("--alert-url is for --alert-factor: say how many times the usual RTT is too much, such as 2")
	case f.secrets != "" && f.url == "":
		return errors.New("--alert-secret-file signs what --alert-url gets: name the service, too")
	case f.factor == 0:
		return nil
	case aggregate == 0:
		return errors.New("--alert-factor is for --aggregate: say how often to report, such as -a 60")
	}
	return cmp.Or(
		bounds.Check("--alert-factor", f.factor, 1.1, 1000),
		bounds.Check("--alert-for", f.lasting, time.Second, 24*time.Hour))
}
