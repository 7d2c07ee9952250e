package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sluice/media"
	"sluice/relay"
)

// relayStatus is what GET /status tells.
type relayStatus struct {
	// FastPath has what the kernel has done, by reason; null without the fast path.
	FastPath map[string]uint64     `json:"fast_path"`
	Sessions []relay.SessionStatus `json:"sessions"`
}

// status describes the relay's sessions and its fast path.
func (s *relayServer) status() (st relayStatus, err error) {
	st.Sessions = s.relay.Sessions()
	if s.fastPath != nil {
		st.FastPath, err = s.fastPath.Counts()
	}
	return st, err
}

type statusFlags struct {
	admin           string
	asJSON, verbose bool
}

func newRelayStatus(env *environment) *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the sessions of a running relay, and what the kernel sends for it",
		Long: `Ask a relay on this machine for its sessions: packets with media that the kernel and the relay's process have sent to each, lost
packets, round-trip time, congestion window and the priority threshold of --drop. Below are the reasons for which the
kernel left packets to the process.`,
		Example: `  sluice relay status
  sluice relay status --verbose                # all reasons, of the kernel and of the process
  sluice relay status --json | jq '.sessions[].packets'
  watch sluice relay status`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), env.stdout) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.admin, "admin", "127.0.0.1:4480", "the relay's --admin `address`")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "show every reason, every counter of the fast path, and sessions that have ended within the last minute")
	flags.BoolVar(&f.asJSON, "json", false, "write JSON")
	return cmd
}

func (f *statusFlags) run(ctx context.Context, w io.Writer) error {
	text, err := getStatus(ctx, http.DefaultClient, f.admin)
	if err != nil {
		return fmt.Errorf("%w; is a relay running with --admin %s?", err, f.admin)
	}
	if f.asJSON {
		_, err = w.Write(text)
		return err
	}
	var st relayStatus
	if err := json.Unmarshal(text, &st); err != nil {
		return fmt.Errorf("what answers at %s is no relay: %w", f.admin, err)
	}
	_, err = w.Write(st.render(f.verbose))
	return err
}

// getStatus asks a relay for its status, which is JSON of a relayStatus.
func getStatus(ctx context.Context, client *http.Client, addr string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/status", nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", req.URL, resp.Status)
	}
	return text, err
}

func (st *relayStatus) render(verbose bool) []byte {
	var b bytes.Buffer
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PEER\tOVER\tTRACKS\tKERNEL\tPROCESS\tLOST\tRTT\tWINDOW\tDROPS\tFAST PATH")
	shown := st.shown(verbose)
	for _, s := range shown {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n", s.Remote, s.Transport, tracksText(&s), s.Packets.Kernel, s.Packets.Process,
			s.Packets.Lost, rttText(s.SRTT), bytesText(uint64(s.Window)), thresholdText(s.Threshold), st.fastPathText(&s))
	}
	table.Flush()
	for _, s := range shown {
		st.explain(&b, &s, verbose)
	}
	if ended := len(st.Sessions) - len(shown); ended > 0 {
		fmt.Fprintf(&b, "ended within the last minute: %d (--verbose shows them)\n", ended)
	}
	if verbose && len(st.FastPath) > 0 {
		fmt.Fprintf(&b, "the kernel, in all:\n  %s\n", strings.ReplaceAll(reasonsText(st.FastPath, len(st.FastPath)), ", ", "\n  "))
	}
	return b.Bytes()
}

// shown are the sessions that there are, and with verbose also those that have ended.
func (st *relayStatus) shown(verbose bool) []relay.SessionStatus {
	if verbose {
		return st.Sessions
	}
	return slices.DeleteFunc(slices.Clone(st.Sessions), func(s relay.SessionStatus) bool { return s.Ended != nil })
}

// explain adds why packets were not sent by the kernel, or not sent.
func (st *relayStatus) explain(w io.Writer, s *relay.SessionStatus, verbose bool) {
	shown := topReasons
	if verbose {
		shown = len(s.Declined) + len(s.Held) + len(s.Streams)
	}
	for _, part := range []struct {
		what    string
		reasons map[string]uint64
		wanted  bool
	}{{"left to the process", s.Declined, true}, {"held by the process", s.Held, verbose}, {"streams ended", s.Streams, verbose}} {
		if text := reasonsText(part.reasons, shown); text != "" && part.wanted {
			fmt.Fprintf(w, "%s, %s: %s\n", s.Remote, part.what, text)
		}
	}
}

// topReasons is how many reasons are shown unless all are asked for.
const topReasons = 3

// reasonsText lists the most frequent reasons that are not zero.
func reasonsText(reasons map[string]uint64, shown int) string {
	names := slices.DeleteFunc(slices.Collect(maps.Keys(reasons)), func(name string) bool { return reasons[name] == 0 })
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(reasons[b], reasons[a]), cmp.Compare(a, b)) })
	var parts []string
	var rest uint64
	for i, name := range names {
		if i < shown {
			parts = append(parts, fmt.Sprintf("%d %s", reasons[name], name))
		} else {
			rest += reasons[name]
		}
	}
	if rest > 0 {
		parts = append(parts, fmt.Sprintf("%d others", rest))
	}
	return strings.Join(parts, ", ")
}

// tracksText is what a session brings and gets, and how much of that the kernel forwards.
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

// thresholdText is what the drop policy has given up.
func thresholdText(l media.Level) string {
	if l == media.LowestPriority {
		return "-"
	}
	return fmt.Sprintf("over %d/%d", l>>8, l&0xff)
}

// fastPathText says how the kernel takes part in a session, or that it has ended.
func (st *relayStatus) fastPathText(s *relay.SessionStatus) string {
	switch {
	case s.Ended != nil:
		return "ended"
	case s.OnFastPath > 0:
		return fmt.Sprintf("%d of %d", s.OnFastPath, s.Subscriptions)
	case st.FastPath == nil:
		return "off"
	case !s.FastPath && s.CipherSuite != chacha20:
		return "no, " + strings.TrimPrefix(s.CipherSuite, "TLS_")
	}
	return "-"
}

const chacha20 = "TLS_CHACHA20_POLY1305_SHA256" // the only suite that the kernel's programs have
