package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/relay/withdrawn"
	"sluice/server/api"
)

// withdrawFlags are the flags of sluice relay withdraw.
type withdrawFlags struct {
	operatorFlags
	life    time.Duration
	restore bool
}

func newRelayWithdraw(env *cli.Environment) *cobra.Command {
	var f withdrawFlags
	cmd := &cobra.Command{
		Use:   "withdraw [flags] [SUBJECT --for DURATION | SUBJECT --restore]",
		Short: "Take the force from tokens, at a running relay and its cluster",
		Long: `Take the force from all tokens of a subject, as sluice relay sessions lists it: what they have allowed
ends at once, and nothing is allowed any more, at a relay on this machine and at all nodes of its cluster. Without a
subject, list the subjects that are withdrawn.

This is for the time until the token ends by itself, or until its line, key or user is gone where it comes from. A relay
that is not in a cluster forgets it when its process ends, unless it has --auth-withdrawn-file.`,
		Example: `  sluice relay withdraw '"alice" of "https://login.example"' --for 24h
  sluice relay withdraw sha256:$(printf %s "$TOKEN" | sha256sum | cut -c-64) --for 1h   # a token of a file
  sluice relay withdraw
  sluice relay withdraw '"alice" of "https://login.example"' --restore`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := f.request(args)
			if err != nil {
				return err
			}
			return f.show(cmd.Context(), r, env.Stdout)
		},
	}
	f.register(cmd)
	cmd.Flags().DurationVar(&f.life, "for", 0, "withdraw for this `duration`, at most 8784h (366 days)")
	cmd.Flags().BoolVar(&f.restore, "restore", false, "give the tokens of the subject their force again")
	cmd.MarkFlagsMutuallyExclusive("for", "restore")
	return cmd
}

func (f *withdrawFlags) request(args []string) (request, error) {
	change := f.restore || f.life != 0
	if change != (len(args) > 0) {
		return request{}, cli.AsUsage(errors.New(
			"say whose tokens, and for how long: SUBJECT --for 24h, or SUBJECT --restore"))
	}
	const path = "/api/withdrawals"
	if !change {
		var all api.Withdrawals
		return request{http.MethodGet, path, nil, &all, func() []byte { return withdrawalsText(&all) }}, nil
	}
	method, q := http.MethodPost, url.Values{"subject": {args[0]}}
	if f.restore {
		method = http.MethodDelete
	} else {
		q.Set("for", f.life.String())
	}
	var e withdrawn.Entry
	return request{method, path, q, &e, func() []byte {
		return fmt.Appendf(nil, "%s: %s\n", e.Subject, entryText(&e))
	}}, nil
}

func withdrawalsText(all *api.Withdrawals) []byte {
	var b bytes.Buffer
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SUBJECT\tSTATE")
	for _, e := range all.Withdrawals {
		fmt.Fprintf(table, "%s\t%s\n", e.Subject, entryText(&e))
	}
	table.Flush()
	return b.Bytes()
}

func entryText(e *withdrawn.Entry) string {
	if e.Restored {
		return "restored"
	}
	return "withdrawn until " + e.Until.UTC().Format(time.RFC3339)
}
