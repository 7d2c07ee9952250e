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
			text, err := f.run(cmd, args)
			if err == nil {
				_, err = env.Stdout.Write(text)
			}
			return err
		},
	}
	f.register(cmd)
	cmd.Flags().DurationVar(&f.life, "for", 0, "withdraw for this `duration`, at most 8784h (366 days)")
	cmd.Flags().BoolVar(&f.restore, "restore", false, "give the tokens of the subject their force again")
	cmd.MarkFlagsMutuallyExclusive("for", "restore")
	return cmd
}

func (f *withdrawFlags) run(cmd *cobra.Command, args []string) ([]byte, error) {
	change := f.restore || f.life != 0
	if change != (len(args) > 0) {
		return nil, cli.AsUsage(errors.New(
			"say whose tokens, and for how long: SUBJECT --for 24h, or SUBJECT --restore"))
	}
	if !change {
		return f.list(cmd)
	}
	method, q := http.MethodPost, url.Values{"subject": {args[0]}}
	if f.restore {
		method = http.MethodDelete
	} else {
		q.Set("for", f.life.String())
	}
	var e withdrawn.Entry
	text, err := f.ask(cmd.Context(), method, "/api/withdrawals", q, &e)
	if err == nil && !f.asJSON {
		text = fmt.Appendf(nil, "%s: %s\n", e.Subject, entryText(&e))
	}
	return text, err
}

// list lists the withdrawn subjects.
func (f *withdrawFlags) list(cmd *cobra.Command) ([]byte, error) {
	var all api.Withdrawals
	text, err := f.ask(cmd.Context(), http.MethodGet, "/api/withdrawals", nil, &all)
	if err != nil || f.asJSON {
		return text, err
	}
	var b bytes.Buffer
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SUBJECT\tSTATE")
	for _, e := range all.Withdrawals {
		fmt.Fprintf(table, "%s\t%s\n", e.Subject, entryText(&e))
	}
	table.Flush()
	return b.Bytes(), nil
}

func entryText(e *withdrawn.Entry) string {
	if e.Restored {
		return "restored"
	}
	return "withdrawn until " + e.Until.UTC().Format(time.RFC3339)
}
