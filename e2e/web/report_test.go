package web

import (
	"io"
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

var (
	metricsURL = regexp.MustCompile(`metrics +(http\S+)`)
	reports    = regexp.MustCompile(`(?m)^sluice_relay_playback_reports_total (\d+)`)
)

// tells waits until the player has told what it shows to a relay that was started with an admin address. Then it makes
// the window smaller, so that there is something new to tell.
func (b *tab) tells(r *relay) {
	b.t.Helper()
	before := r.awaitReports(b.t, 1)
	b.run(chromedp.EmulateViewport(width/2, height))
	r.awaitReports(b.t, before+1)
}

// awaitReports waits until the relay has got n reports of players, and returns how many it has got.
func (r *relay) awaitReports(t *testing.T, n int) (count int) {
	t.Helper()
	url := r.says(t, metricsURL)[1]
	require.Eventually(t, func() bool {
		if found := reports.FindStringSubmatch(get(url)); found != nil {
			count, _ = strconv.Atoi(found[1])
		}
		return count >= n
	}, patience, 100*time.Millisecond, "no reports come")
	return count
}

// get returns what a server answers, nothing if it does not.
func get(url string) string {
	answer, err := http.Get(url)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return string(text)
}
