package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/cli/clitest"
	"sluice/internal/thorough"
	"sluice/lab"
	"sluice/lab/labtest"
)

// background starts a program on a host. It ends with the test.
func background(t *testing.T, h *lab.Host, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	require.NoError(t, h.Start(cmd))
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", name, output.String())
		}
	})
}

// queriesOf returns the queries of a dashboard, as Grafana sends them.
func queriesOf(t *testing.T, file, instance string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(clitest.Path(file))
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	fill := strings.NewReplacer("$job", "sluice", "$instance", instance, "$__rate_interval", "10s")
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			if !strings.Contains(target.Expr, "sluice_media_send_errors_total") { // an error brings it
				all = append(all, fill.Replace(target.Expr))
			}
		}
	}
	return all
}

// empty returns those of some queries that Prometheus has no value for. A mistake in one ends the test.
func empty(t *testing.T, client *http.Client, queries []string) (none []string) {
	t.Helper()
	for _, q := range queries {
		r, err := client.Get("http://127.0.0.1:9090/api/v1/query?query=" + url.QueryEscape(q))
		if err != nil {
			return queries // it does not listen yet
		}
		var answer struct {
			Status, Error string
			Data          struct{ Result []json.RawMessage }
		}
		err = json.NewDecoder(r.Body).Decode(&answer)
		_ = r.Body.Close()
		if err != nil {
			return queries
		}
		require.Equal(t, "success", answer.Status, "%s: %s", q, answer.Error)
		if len(answer.Data.Result) == 0 {
			none = append(none, q)
		}
	}
	return none
}

// TestDashboard has Prometheus scrape a relay that forwards media in the kernel, and answer each query of the
// dashboard.
func TestDashboard(t *testing.T) {
	thorough.Only(t)
	l := labtest.New(t, lab.Topology{Subscribers: 1})
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
			err = l.Relay.Do(func() error {
				conn, err = new(net.Dialer).DialContext(ctx, network, addr)
				return err
			})
			return conn, err
		},
	}}
	allow := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"allow": true}`)
	}))
	require.NoError(t, l.Relay.Do(func() (err error) {
		allow.Listener, err = net.Listen("tcp", "127.0.0.1:8080")
		return err
	}))
	allow.Start()
	defer allow.Close()
	background(t, l.Relay, "sluice", "relay", "--dev", "--web", "off", "--fastpath", "on", "--auth-url", allow.URL,
		"--quota-per-address", "namespaces=1")
	on := func(h *lab.Host, command string, args ...string) {
		background(t, h, "sluice", append([]string{command, "--tls-disable-verify", "--namespace", "live/demo",
			"--relay", fmt.Sprintf("moqt://%v:4443", l.Relay.Facing(h).IPv4.Addr())}, args...)...)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, []byte(`{global: {scrape_interval: 1s},
		scrape_configs: [{job_name: sluice, static_configs: [{targets: ["127.0.0.1:4480"]}]}]}`), 0o600))
	background(t, l.Relay, "prometheus", "--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"),
		"--web.listen-address", "127.0.0.1:9090")
	await := func(queries ...string) {
		for deadline := time.Now().Add(time.Minute); len(queries) > 0 && time.Now().Before(deadline); {
			queries = empty(t, client, queries)
			time.Sleep(time.Second)
		}
		require.Empty(t, strings.Join(queries, "\n"), "these queries have no value")
	}
	on(l.Publisher, "pub", "--loop", clitest.Path("testdata/clip.mp4"))
	await("sluice_auth_hook_decisions_total > 0") // its namespace
	on(l.Subscribers[0], "sub", "--out", os.DevNull)
	// One namespace more than an address may have.
	on(l.Publisher, "pub", "--namespace", "live/more", "--loop", clitest.Path("testdata/clip.mp4"))
	queries := queriesOf(t, "dist/grafana/sluice.json", "127.0.0.1:4480")
	require.Greater(t, len(queries), 20)
	await(queries...)
}
