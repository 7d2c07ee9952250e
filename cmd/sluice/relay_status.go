package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/media"
	"sluice/relay"
	"sluice/server"
)

// statusFlags are the flags of sluice relay status.
type statusFlags struct {
	operatorFlags
	verbose bool
}

func newRelayStatus(env *cli.Environment) *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the sessions of a running relay, and what the kernel sends for it",
		Long: `Ask a relay on this machine for its sessions: how many packets with media the kernel and the relay's
process have sent to each, lost packets, round-trip time, congestion window and what --drop drops: priorities over a
threshold, or bytes over the rate of its bucket. A second table has the clients of other protocols than MoQT, such as
RTSP: the media that they have published or were sent, and how many packets they were not. The lines below list the
reasons why the kernel left packets to the process, and the processes that this one has replaced (--replace) and that
still have sessions.`,
		Example: `  sluice relay status
  sluice relay status --verbose                # all reasons, of the kernel and of the process
  sluice relay status --json | jq '.sessions[].packets'
  watch sluice relay status`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), env.Stdout) },
	}
	f.registerOpen(cmd)
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "show every reason, every counter of the fast path, and "+
		"sessions that have ended within the last minute")
	return cmd
}

func (f *statusFlags) run(ctx context.Context, w io.Writer) error {
	r := statusReport{verbose: f.verbose}
	return f.show(ctx, request{method: http.MethodGet, path: "/status", answer: &r.Status, text: r.text}, w)
}

// statusReport writes the status of a relay for people.
type statusReport struct {
	server.Status
	verbose bool
}

func (r *statusReport) text() []byte {
	var b bytes.Buffer
	shown := r.shown()
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PEER\tOVER\tTRACKS\tKERNEL\tPROCESS\tLOST\tRTT\tWINDOW\tDROPS\tFAST PATH")
	for _, s := range shown {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n", s.Remote, s.Transport, tracksText(&s),
			s.Packets.Kernel, s.Packets.Process, s.Packets.Lost, rttText(s.SRTT), cli.BytesText(uint64(s.Window)),
			dropsText(&s), r.fastPathText(&s))
	}
	table.Flush()
	r.listGuests(&b)
	for _, s := range shown {
		r.explain(&b, &s)
		describeRenditions(&b, &s)
	}
	for _, u := range r.Upstreams {
		r.describeUpstream(&b, &u)
	}
	for _, p := range r.Draining {
		fmt.Fprintf(&b, "process %d was replaced and drains; sessions that it still has: %d\n", p.PID, p.Sessions)
	}
	if ended := len(r.Sessions) - len(shown); ended > 0 {
		fmt.Fprintf(&b, "ended within the last minute: %d (--verbose shows them)\n", ended)
	}
	if r.Policy != "" {
		fmt.Fprintf(&b, "policy: %s, by which the kernel declined %d copies\n", r.Policy, r.FastPath["copy_policy"])
	}
	r.explainJobs(&b)
	if r.verbose {
		r.explainSockets(&b)
	}
	if r.verbose && len(r.FastPath) > 0 {
		counts := cli.CountsText(r.FastPath, len(r.FastPath))
		fmt.Fprintf(&b, "the kernel, in all:\n  %s\n", strings.ReplaceAll(counts, ", ", "\n  "))
	}
	return b.Bytes()
}

// listGuests lists the clients of other protocols, if there are any.
func (r *statusReport) listGuests(w io.Writer) {
	if len(r.Guests) == 0 {
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nGUEST\tPROTOCOL\tMEDIA BY\tDOES\tBROADCAST\tRECEIVED\tSENT\tDROPPED")
	for _, g := range r.Guests {
		does := "plays"
		if g.Publishes {
			does = "publishes"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\n", g.Remote, g.Protocol, cmp.Or(g.Carrier, "-"), does,
			g.Namespace, cli.BytesText(g.Received), cli.BytesText(g.Sent), g.Dropped)
	}
	table.Flush()
}

// describeUpstream tells whether there is a session with an upstream relay, and its traffic.
func (r *statusReport) describeUpstream(w io.Writer, u *server.UpstreamStatus) {
	if !u.Connected {
		fmt.Fprintf(w, "upstream relay %s: not connected%s\n", u.URL, strings.TrimSuffix(": "+u.Error, ": "))
		return
	}
	from, to := 0, 0
	for _, s := range r.Sessions {
		if s.Upstream == u.URL && s.Ended == nil {
			from, to = from+s.Publications, to+s.Subscriptions
		}
	}
	fmt.Fprintf(w, "upstream relay %s: connected, tracks from there: %d, to there: %d\n", u.URL, from, to)
}

// explainJobs tells how crowds of RTSP players are served: by workers, or, for the listed reasons, by the process.
func (r *statusReport) explainJobs(w io.Writer) {
	left := make(map[string]uint64)
	for _, why := range []string{"busy", "share", "full", "late", "ended"} {
		left[why] = r.FastPath["job_"+why]
	}
	given := r.FastPath["job_given"]
	if given == 0 && cli.CountsText(left, len(left)) == "" {
		return
	}
	fmt.Fprintf(w, "jobs given to workers: %d", given)
	if text := cli.CountsText(left, len(left)); text != "" {
		fmt.Fprintf(w, "; left to the process: %s", text)
	}
	fmt.Fprintln(w)
}

// explainSockets tells how the datagrams come to the sockets, if there are several.
func (r *statusReport) explainSockets(w io.Writer) {
	for i, a := range r.Sockets {
		fmt.Fprintf(w, "datagrams to socket %d: %d on the CPU of its reader, %d on another\n", i, a.SameCPU, a.OtherCPU)
	}
}

// shown returns the sessions in the table: all with --verbose, else the ones that have not ended.
func (r *statusReport) shown() []relay.SessionStatus {
	if r.verbose {
		return r.Sessions
	}
	ended := func(s relay.SessionStatus) bool { return s.Ended != nil }
	return slices.DeleteFunc(slices.Clone(r.Sessions), ended)
}

// explain lists why the kernel left packets of a session to the process. With --verbose it also lists why the process
// held packets and how streams ended.
func (r *statusReport) explain(w io.Writer, s *relay.SessionStatus) {
	list := func(what string, counts map[string]uint64, shown int) {
		if text := cli.CountsText(counts, shown); text != "" {
			fmt.Fprintf(w, "%s, %s: %s\n", s.Remote, what, text)
		}
	}
	if !r.verbose {
		list("left to the process", s.Declined, cli.TopReasons)
		return
	}
	list("left to the process", s.Declined, len(s.Declined))
	list("held by the process", s.Held, len(s.Held))
	list("streams ended", s.Streams, len(s.Streams))
}

// describeRenditions tells which renditions the relay has chosen for a session.
func describeRenditions(w io.Writer, s *relay.SessionStatus) {
	for _, v := range s.Renditions {
		fmt.Fprintf(w, "%s, rendition: %s, one of %d", s.Remote, cmp.Or(v.Track, "none yet"), v.Renditions)
		if v.Switches > 0 {
			fmt.Fprintf(w, ", switches: %d, the last one: %s", v.Switches, v.Reason)
		}
		fmt.Fprintln(w)
	}
}

// tracksText counts the tracks that a session publishes and receives.
func tracksText(s *relay.SessionStatus) string {
	var parts []string
	if s.Publications > 0 {
		parts = append(parts, fmt.Sprintf("%d in", s.Publications))
	}
	if s.Subscriptions > 0 {
		parts = append(parts, fmt.Sprintf("%d out", s.Subscriptions))
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}

func rttText(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f ms", float64(d)/1e6)
}

// dropsText says which objects the drop policy drops: those over its threshold, which is a subscriber priority and a
// publisher priority, and those over the rate of its bucket.
func dropsText(s *relay.SessionStatus) string {
	var parts []string
	if l := s.Threshold; l != media.LowestPriority {
		parts = append(parts, fmt.Sprintf("over %d/%d", l>>8, l&0xff))
	}
	if s.BucketRate > 0 {
		parts = append(parts, fmt.Sprintf("over %s/s", cli.BytesText(uint64(s.BucketRate))))
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}

// fastPathText returns how many of a session's tracks are on the fast path, or why there are none.
func (r *statusReport) fastPathText(s *relay.SessionStatus) string {
	switch {
	case s.Ended != nil:
		return "ended"
	case s.OnFastPath > 0:
		return fmt.Sprintf("%d of %d", s.OnFastPath, s.Subscriptions)
	case r.FastPath == nil:
		return "off"
	case !s.FastPath && s.CipherSuite != chacha20:
		return "no, " + strings.TrimPrefix(s.CipherSuite, "TLS_")
	case !s.FastPath:
		return "no place"
	}
	return "-"
}

const chacha20 = "TLS_CHACHA20_POLY1305_SHA256" // the only suite that the kernel's programs know
