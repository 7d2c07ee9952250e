package e2e

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/cli/clitest"
	"sluice/internal/lab"
	"sluice/internal/lab/labtest"
	"sluice/internal/thorough"
)

// TestDashboardOfMonitor runs two monitors, a Prometheus that scrapes them, and traffic that passes. Each query of the
// dashboard has data at some time. The traffic becomes slower and slower, so that RTTs rise, and alerts with them.
func TestDashboardOfMonitor(t *testing.T) {
	thorough.Only(t)
	program, err := exec.LookPath("prometheus")
	if err != nil && os.Getenv("SLUICE_REQUIRE_KERNEL") == "" {
		t.Skip("needs prometheus (package prometheus)")
	}
	require.NoError(t, err)
	in := inside{t, labtest.New(t, lab.Topology{}).Publisher}
	send := in.tap("tap")
	service, everything, flows, api := in.serve(), in.free(), in.free(), in.free()
	in.start("sluice-rtt", "-i", "tap", "--all", "-r", "0", "-w", os.DevNull, "--metrics", everything,
		"-a", "1", "-4", "8", "-6", "16", "--aggregate-parts", "--aggregate-load", "0.6", "--history", t.TempDir(),
		"--alert-factor", "1.5", "--alert-for", "1s", "--alert-url", "http://"+service, "--otlp-url", "http://"+service,
		"--ipfix", service)
	in.start("sluice-rtt", "-i", "tap", "--all", "-w", os.DevNull, "--metrics", flows)
	in.start(program, "--config.file", prometheusConfig(t, everything, flows), "--web.listen-address", api,
		"--storage.tsdb.path", t.TempDir(), "--enable-feature=native-histograms", "--log.level=warn")
	for _, address := range []string{everything, flows} {
		in.await(address)
	}
	play(t, send)

	client := in.client(api)
	left := dashboardQueries(t)
	for deadline := time.Now().Add(5 * time.Minute); len(left) > 0; time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			t.Fatalf("no data:\n%s", strings.Join(slices.Sorted(maps.Keys(left)), "\n"))
		}
		for expr := range left {
			if hasData(t, client, expr) {
				delete(left, expr)
			}
		}
	}
}

// prometheusConfig writes a configuration for two monitors, with the alerts that are shipped.
func prometheusConfig(t *testing.T, targets ...string) (file string) {
	config, err := json.Marshal(map[string]any{
		"global":     map[string]string{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files": []string{clitest.Path("dist/prometheus/sluice-rtt.rules.yml")},
		"scrape_configs": []any{map[string]any{
			"job_name": "sluice-rtt", "static_configs": []any{map[string]any{"targets": targets}},
		}},
	})
	require.NoError(t, err)
	file = filepath.Join(t.TempDir(), "prometheus.yml") // JSON is YAML, too
	require.NoError(t, os.WriteFile(file, config, 0o600))
	return file
}

// dashboardQueries returns the queries of the panels, with values for the dashboard's variables.
func dashboardQueries(t *testing.T) map[string]bool {
	text, err := os.ReadFile(clitest.Path("dist/grafana/sluice-rtt.json"))
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	queries := make(map[string]bool)
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			queries[strings.NewReplacer("$job", "sluice-rtt", "$instance", ".+", "$prefix", ".+",
				"$__rate_interval", "10s").Replace(target.Expr)] = true
		}
	}
	require.Greater(t, len(queries), 30)
	return queries
}

// hasData asks Prometheus. A query that Prometheus does not understand fails the test.
func hasData(t *testing.T, client *http.Client, expr string) bool {
	answer, err := client.Get("http://prometheus/api/v1/query?" + url.Values{"query": {expr}}.Encode())
	if err != nil {
		return false // it starts
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusServiceUnavailable {
		return false
	}
	var result struct {
		Error string
		Data  struct {
			Result []struct {
				Value     []any
				Histogram []any
			}
		}
	}
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&result), expr)
	require.Equal(t, http.StatusOK, answer.StatusCode, "%s: %s", expr, result.Error)
	for _, r := range result.Data.Result {
		if r.Histogram != nil || len(r.Value) == 2 && r.Value[1] != "NaN" {
			return true
		}
	}
	return false
}

// inside is a host of a lab, in which everything runs.
type inside struct {
	t *testing.T
	*lab.Host
}

// start starts a program that ends with the test.
func (in inside) start(program string, args ...string) {
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = in.t.Output(), in.t.Output()
	require.NoError(in.t, in.Start(cmd))
	in.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
}

// await waits until a monitor is ready.
func (in inside) await(address string) {
	client := in.client(address)
	require.Eventually(in.t, func() bool {
		answer, err := client.Get("http://" + address + "/readyz")
		return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	}, time.Minute, 20*time.Millisecond, "the monitor does not start")
}

func (in inside) listen() (l net.Listener) {
	require.NoError(in.t, in.Do(func() (err error) {
		l, err = net.Listen("tcp4", "127.0.0.1:0")
		return err
	}))
	return l
}

// free returns an address at which nobody listens.
func (in inside) free() string {
	l := in.listen()
	defer l.Close()
	return l.Addr().String()
}

// serve returns the address of a service that takes all requests, and all datagrams.
func (in inside) serve() string {
	l := in.listen()
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	})}
	go func() { _ = server.Serve(l) }()
	records, err := in.ListenUDP(l.Addr().(*net.TCPAddr).AddrPort())
	require.NoError(in.t, err)
	in.t.Cleanup(func() {
		_ = server.Close()
		_ = records.Close()
	})
	return l.Addr().String()
}

// client returns an HTTP client that connects to nothing but an address in the host.
func (in inside) client(to string) *http.Client {
	transport := &http.Transport{DialContext: func(context.Context, string, string) (c net.Conn, err error) {
		err = in.Do(func() error {
			c, err = net.Dial("tcp4", to)
			return err
		})
		return c, err
	}}
	in.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}
