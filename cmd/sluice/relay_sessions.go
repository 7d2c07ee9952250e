package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/relay"
	"sluice/server/api"
)

// sessionFilter are the flags that choose sessions of a relay.
type sessionFilter struct{ subject, prefix, role string }

func (f *sessionFilter) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.subject, "subject", "", "sessions that show a token of this `subject`")
	flags.StringVar(&f.prefix, "prefix", "", "sessions from an IP `address`, or a prefix such as 192.0.2.0/24")
	flags.StringVar(&f.role, "role", "", "sessions of a publisher, subscriber or upstream relay")
}

func (f *sessionFilter) values() url.Values {
	q := make(url.Values)
	for name, value := range map[string]string{"subject": f.subject, "prefix": f.prefix, "role": f.role} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

func newRelaySessions(env *cli.Environment) *cobra.Command {
	var f struct {
		operatorFlags
		sessionFilter
	}
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List who is connected to a running relay",
		Long: `List the sessions of a relay on this machine: their ids and addresses, what they do, and the subjects of
the tokens that have allowed it. Several filters choose the sessions to which all of them apply. How their packets fare
is shown by sluice relay status.

While one process of the relay replaces another, sessions that are left at the older ones follow. Their ids are
PROCESS/ID.`,
		Example: `  sluice relay sessions
  sluice relay sessions --role publisher
  sluice relay sessions --prefix 192.0.2.0/24 --json | jq '.sessions[].id'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := listSessions(cmd.Context(), &f.operatorFlags, f.values())
			if err != nil {
				return err
			}
			if f.asJSON {
				return cli.WriteJSON(env.Stdout, all)
			}
			_, err = env.Stdout.Write(sessionsText(all, time.Now()))
			return err
		},
	}
	f.operatorFlags.register(cmd)
	f.sessionFilter.register(cmd)
	return cmd
}

// allSessions are the sessions of a relay, and of its processes that were replaced.
type allSessions struct {
	Sessions []relay.SessionSummary `json:"sessions"`
	Draining []processSessions      `json:"draining,omitempty"`
}

// processSessions are the sessions of a process that was replaced.
type processSessions struct {
	Process  int                    `json:"process"`
	Sessions []relay.SessionSummary `json:"sessions"`
}

// listSessions asks all processes.
func listSessions(ctx context.Context, f *operatorFlags, q url.Values) (all allSessions, err error) {
	var draining []int
	if all.Sessions, draining, err = pagesOf(ctx, f, q); err != nil {
		return all, err
	}
	for _, pid := range draining {
		q.Set("process", strconv.Itoa(pid))
		list, _, err := pagesOf(ctx, f, q)
		if err != nil {
			return all, err
		}
		all.Draining = append(all.Draining, processSessions{pid, list})
	}
	return all, nil
}

// pagesOf asks a process for all pages, and for the processes that drain.
func pagesOf(
	ctx context.Context, f *operatorFlags, q url.Values,
) (all []relay.SessionSummary, draining []int, err error) {
	all = []relay.SessionSummary{}
	q.Set("limit", "1000")
	for after := uint64(0); ; {
		var page api.Sessions
		q.Set("after", strconv.FormatUint(after, 10))
		if _, err := f.ask(ctx, http.MethodGet, "/api/sessions", q, &page); err != nil {
			return all, nil, err
		}
		all = append(all, page.Sessions...)
		if page.Next <= after { // 0: the last one
			return all, page.Draining, nil
		}
		after = page.Next
	}
}

// sessionsText writes sessions for people.
func sessionsText(all allSessions, now time.Time) []byte {
	var b bytes.Buffer
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tPEER\tOVER\tTRACKS\tFOR\tPATH\tSUBJECTS")
	writeSessions(table, "", all.Sessions, now)
	for _, p := range all.Draining {
		writeSessions(table, fmt.Sprintf("%d/", p.Process), p.Sessions, now)
	}
	table.Flush()
	return b.Bytes()
}

func writeSessions(table io.Writer, process string, list []relay.SessionSummary, now time.Time) {
	for _, s := range list {
		tracks := tracksText(&relay.SessionStatus{Publications: s.Publications, Subscriptions: s.Subscriptions})
		remote := s.Remote
		if s.Upstream != "" {
			remote += " (upstream)"
		}
		fmt.Fprintf(table, "%s%d\t%s\t%s\t%s\t%s\t%s\t%s\n", process, s.ID, remote, s.Transport, tracks,
			now.Sub(s.Began).Round(time.Second), cmp.Or(s.Path, "-"),
			cmp.Or(strings.Join(s.Subjects, ", "), "-"))
	}
}

func newRelayKick(env *cli.Environment) *cobra.Command {
	var f struct {
		operatorFlags
		sessionFilter
	}
	cmd := &cobra.Command{
		Use:   "kick [flags] (ID... | --subject S | --prefix P | --role R)",
		Short: "End sessions of a running relay",
		Long: `End sessions of a relay on this machine, by the ids that sluice relay sessions lists, or those that
filters choose. Peers are told that the operator has ended the session (NO_ERROR). They may come back: sluice relay
withdraw takes the force from their token, and a firewall keeps an address away.

Sessions with upstream relays are ended only by their id or --role upstream: the relay dials them again.`,
		Example: `  sluice relay kick 17 23
  sluice relay kick --subject '"alice" of "https://login.example"'
  sluice relay kick --prefix 192.0.2.0/24 --role publisher`,
		RunE: func(cmd *cobra.Command, ids []string) error {
			q := f.values()
			if len(ids) > 0 == (len(q) > 0) {
				return cli.AsUsage(errors.New("say which sessions: either their ids, as sluice relay sessions lists " +
					"them, or --subject, --prefix or --role"))
			}
			if len(ids) == 0 {
				return kick(cmd.Context(), &f.operatorFlags, "end", q, env.Stdout)
			}
			for _, id := range ids {
				process, of, found := strings.Cut(id, "/")
				if found {
					id = of
					q.Set("process", process)
				} else {
					q.Del("process")
				}
				which := url.PathEscape(id) + "/end"
				if err := kick(cmd.Context(), &f.operatorFlags, which, q, env.Stdout); err != nil {
					return err
				}
			}
			return nil
		},
	}
	f.operatorFlags.register(cmd)
	f.sessionFilter.register(cmd)
	return cmd
}

// kick asks for the end of sessions, and tells which have ended.
func kick(ctx context.Context, f *operatorFlags, which string, q url.Values, w io.Writer) error {
	var ended api.Ended
	return f.show(ctx, request{http.MethodPost, "/api/sessions/" + which, q, &ended, func() []byte {
		return endedText(q.Get("process"), &ended)
	}}, w)
}

// endedText names the sessions that a process, or the newest one and others, have ended.
func endedText(process string, ended *api.Ended) []byte {
	var ids []string
	for _, id := range ended.Ended {
		ids = append(ids, strings.TrimPrefix(fmt.Sprintf("%s/%d", process, id), "/"))
	}
	for _, other := range ended.Elsewhere {
		for _, id := range other.Ended {
			ids = append(ids, fmt.Sprintf("%d/%d", other.Process, id))
		}
	}
	if len(ids) == 0 {
		return []byte("no session is chosen by that\n")
	}
	return fmt.Appendln(nil, "ended:", strings.Join(ids, " "))
}

func newRelayDrain(env *cli.Environment) *cobra.Command {
	var f operatorFlags
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Take a running relay out of service",
		Long: `Have a relay on this machine ask its peers to move on (GOAWAY), and end when they have left or after its
--drain, as SIGTERM does. New sessions are sent away as well.`,
		Example: `  sluice relay drain
  watch sluice relay sessions        # until the relay has ended`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var d api.Draining
			return f.show(cmd.Context(), request{http.MethodPost, "/api/drain", nil, &d, func() []byte {
				return fmt.Appendf(nil, "draining; sessions that have to leave: %d\n", d.Sessions)
			}}, env.Stdout)
		},
	}
	f.register(cmd)
	return cmd
}
