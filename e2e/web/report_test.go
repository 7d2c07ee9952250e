package web

import (
	"io"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	metricsURL = regexp.MustCompile(`metrics +(http\S+)`)
	reports    = regexp.MustCompile(`(?m)^sluice_relay_playback_reports_total ([2-9]|\d\d)`)
)

// awaitReports waits until players have told the relay, which was started with an admin address, what they show.
func (r *relay) awaitReports(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		found := metricsURL.FindStringSubmatch(r.output.String())
		if found == nil {
			return false
		}
		answer, err := http.Get(found[1])
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return err == nil && reports.Match(text)
	}, patience, 100*time.Millisecond, "no reports come")
}
