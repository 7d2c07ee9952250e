package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/cli/clitest"
	"sluice/internal/service"
	"sluice/internal/thorough"
)

// scraper is the address of a Prometheus.
type scraper string

// has reports whether a query has series. A mistake in it ends the test.
func (s scraper) has(t *testing.T, query string) bool {
	r, err := http.Get("http://" + string(s) + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return false // it starts
	}
	defer r.Body.Close()
	var answer struct {
		Error string
		Data  struct{ Result []json.RawMessage }
	}
	_ = json.NewDecoder(r.Body).Decode(&answer) // at first it says that it is not ready
	require.Empty(t, answer.Error, query)
	return len(answer.Data.Result) > 0
}

// await waits until all queries have series.
func (s scraper) await(t *testing.T, queries ...string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for range time.Tick(100 * time.Millisecond) {
		queries = slices.DeleteFunc(queries, func(q string) bool { return s.has(t, q) })
		if len(queries) == 0 {
			return
		}
		require.True(t, time.Now().Before(deadline), "no series:\n%s", strings.Join(queries, "\n"))
	}
}

// background starts a program that ends with the test.
func background(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() })
}

// scrapeConfig returns the configuration in dist/README.md, for programs at other addresses.
func scrapeConfig(t *testing.T, relay, monitor string) []byte {
	text, err := os.ReadFile(clitest.Path("dist/README.md"))
	require.NoError(t, err)
	config := regexp.MustCompile(`(?m)^    scrape_configs:\n(?:    .*\n)+`).FindString(string(text))
	require.Contains(t, config, "rule_files:")
	return []byte("    global: {scrape_interval: 1s, evaluation_interval: 1s}\n" + strings.NewReplacer(
		"127.0.0.1:4480", relay, "127.0.0.1:4481", monitor, "/usr/share/doc/sluice", clitest.Path("dist/prometheus"),
		"scrape_native_histograms: true", "").Replace(config)) // Debian's Prometheus has a flag instead
}

// unseen matches dashboards' queries about what does not happen here: the kernel forwards nothing, no relay starts
// again, and nothing fires.
var unseen = regexp.MustCompile(`sluice_fastpath_|sluice_media_send_errors|changes\(|ALERTS|sluice_rtt_alert_ratio`)

// TestPrometheus has Prometheus scrape a relay with a publisher and a subscriber, and a monitor, as dist/README.md
// says. It has series for each query of the dashboards, and can evaluate each alert.
func TestPrometheus(t *testing.T) {
	thorough.Only(t)
	if _, err := exec.LookPath("prometheus"); err != nil && os.Getenv("SLUICE_REQUIRE_KERNEL") == "" {
		t.Skip("needs prometheus (make deps installs it)")
	}
	allow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"allow": true}`)
	}))
	t.Cleanup(allow.Close)
	var free [3]string
	for i := range free {
		var err error
		free[i], err = clitest.FreeAddress()
		require.NoError(t, err)
	}
	monitor, err := service.ListenAdmin(service.AdminConfig{Addr: "127.0.0.1:0"}, monitorMetrics(t)...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = monitor.Close() })
	config := filepath.Join(t.TempDir(), "prometheus.yml")
	require.NoError(t, os.WriteFile(config, scrapeConfig(t, free[1], monitor.Addr().String()), 0o600))
	background(t, "prometheus", "--config.file", config, "--storage.tsdb.path", t.TempDir(), "--log.level=warn",
		"--enable-feature=native-histograms", "--web.listen-address", free[2])
	background(t, "sluice", "relay", "--dev", "--web=off", "--fastpath=off", "--auth-url", allow.URL,
		"--listen", free[0], "--admin", free[1], "--quota-per-address=namespaces=1")
	on := func(command string, args ...string) {
		background(t, "sluice", append([]string{command, "--relay", "moqt://" + free[0], "--tls-disable-verify",
			"--namespace"}, args...)...)
	}
	s, clip := scraper(free[2]), clitest.Path("testdata/clip.mp4")
	s.await(t, `up{job="sluice"} == 1`, `up{job="sluice-rtt"} == 1`)
	on("pub", "live/demo", "--loop", clip)
	s.await(t, "sluice_auth_hook_decisions_total > 0") // about its namespace
	on("sub", "live/demo", "--out", os.DevNull)
	on("pub", "live/more", "--loop", clip) // one namespace more than an address may have
	for job, files := range distFiles {
		fill := strings.NewReplacer("$job", job, "$instance", ".+", "$prefix", ".+", "$__rate_interval", "1m")
		var seen []string
		for _, q := range queriesIn(t, files[1]) {
			if expr := fill.Replace(q.expr); !labelValues.MatchString(expr) && !unseen.MatchString(expr) {
				seen = append(seen, expr)
			}
		}
		require.Greater(t, len(seen), 15, job)
		s.await(t, seen...)
		for _, alert := range queriesIn(t, files[0]) {
			s.has(t, alert.expr) // it is right
		}
	}
}
