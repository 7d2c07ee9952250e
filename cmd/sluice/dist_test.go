package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coreos/go-systemd/v22/unit"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"sluice/internal/cli/clitest"
	"sluice/internal/rtt/alert"
	"sluice/internal/rtt/bpf"
	"sluice/internal/rtt/metrics"
	"sluice/internal/rtt/queue"
	"sluice/internal/rtt/report"
	"sluice/server"
)

// exported returns the names of all metrics that a relay serves at /metrics. Some have no value before something has
// happened.
func exported(t *testing.T) (names []string) {
	var f relayFlags
	cmd := new(cobra.Command)
	f.register(cmd)
	require.NoError(t, cmd.ParseFlags([]string{
		"--dev", "--listen", "127.0.0.1:0", "--fastpath", "off", "--auth-url", "http://127.0.0.1:1/",
	}))
	cfg, err := f.config(os.Getenv)
	require.NoError(t, err)
	_, err = f.takeOver(&cfg)
	require.NoError(t, err)
	s, err := server.Listen(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Drain("", 0)) })
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		for _, c := range slices.Concat(processMetrics(), f.auth.metrics, []prometheus.Collector{s}) {
			c.Describe(descs)
		}
	}()
	name := regexp.MustCompile(`fqName: "(\w+)"`)
	for d := range descs {
		names = append(names, name.FindStringSubmatch(d.String())[1])
	}
	return append(names, "up") // Prometheus makes it
}

var (
	quoted     = regexp.MustCompile(`"[^"]*"`)
	metricName = regexp.MustCompile(`\b(?:up|(?:sluice|process|go)_\w+)\b`)
)

// TestDistMetrics compares the metrics in the dashboard and in the alerts with those that a relay exports.
func TestDistMetrics(t *testing.T) {
	known := exported(t)
	require.Contains(t, known, "sluice_relay_sessions")
	for _, file := range []string{"dist/prometheus/sluice.rules.yml", "dist/grafana/sluice.json"} {
		content := readYAML(t, file)
		used := 0
		for _, expr := range append(valuesOf(content, "expr"), valuesOf(content, "query")...) {
			for _, name := range metricName.FindAllString(quoted.ReplaceAllString(expr, ""), -1) {
				require.Contains(t, known, name, "%s: %s", file, expr)
				used++
			}
		}
		require.Greater(t, used, 8, file)
	}
}

var (
	// selector matches a metric with what its labels have to be.
	selector = regexp.MustCompile(`(\w+)\{([^}]*)\}`)
	// matcher matches what one label has to be.
	matcher = regexp.MustCompile(`(\w+)\s*=~?\s*"([^"]*)"`)
	// grouping matches the labels by which sums are told apart, or joined.
	grouping = regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)
)

// monitorMetrics are the metrics of a monitor. Some have no value before something has happened.
type monitorMetrics struct {
	descriptions []string
	values       map[string]bool // metric, label and value of those that have values
}

func exportedByMonitor(t *testing.T) monitorMetrics {
	m := metrics.New(report.Keys{})
	m.Follow(func() (c report.Counters, _ error) {
		for _, tally := range bpf.Tallies {
			c.Events = append(c.Events, report.NamedCount{Name: tally.Label})
		}
		return c, nil
	})
	interval := report.Interval{Aggregation: new(report.Aggregation), Prefixes: make([]report.Prefix, 1)}
	require.NoError(t, m.Interval(&interval))
	q := queue.New(queue.Config{})
	t.Cleanup(func() { require.NoError(t, q.Close()) })
	collectors := []prometheus.Collector{m, alert.New(alert.Config{}), q}
	all := monitorMetrics{values: make(map[string]bool)}
	descs := make(chan *prometheus.Desc, 100)
	registry := prometheus.NewRegistry()
	for _, c := range collectors {
		c.Describe(descs)
		require.NoError(t, registry.Register(c))
	}
	close(descs)
	for d := range descs {
		all.descriptions = append(all.descriptions, d.String())
	}
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, value := range f.GetMetric() {
			for _, l := range value.GetLabel() {
				all.values[f.GetName()+" "+l.GetName()+" "+l.GetValue()] = true
			}
		}
	}
	return all
}

// describe returns how a metric is described, with its labels.
func (m *monitorMetrics) describe(t *testing.T, name string) string {
	i := slices.IndexFunc(m.descriptions, func(d string) bool { return strings.Contains(d, `"`+name+`"`) })
	require.GreaterOrEqual(t, i, 0, name)
	return m.descriptions[i]
}

// TestDistMetricsOfMonitor compares the metrics in the alerts, their labels and the values of these with those that a
// monitor exports.
func TestDistMetricsOfMonitor(t *testing.T) {
	known := exportedByMonitor(t)
	matched := 0
	for _, expr := range valuesOf(readYAML(t, "dist/prometheus/sluice-rtt.rules.yml"), "expr") {
		var labels string
		names := metricName.FindAllString(quoted.ReplaceAllString(expr, ""), -1)
		require.NotEmpty(t, names)
		for _, name := range names {
			if name == "up" { // Prometheus makes it
				continue
			}
			_, l, _ := strings.Cut(known.describe(t, name), "constLabels")
			labels += l
		}
		for _, group := range grouping.FindAllStringSubmatch(expr, -1) {
			for label := range strings.SplitSeq(group[1], ", ") {
				if label != "instance" { // Prometheus adds it
					require.Regexp(t, `\b`+label+`\b`, labels, expr)
				}
			}
		}
		for _, s := range selector.FindAllStringSubmatch(expr, -1) {
			for _, label := range matcher.FindAllStringSubmatch(s[2], -1) {
				if label[1] == "job" {
					require.Equal(t, "sluice-rtt", label[2]) // as dist/README.md has it
					continue
				}
				for value := range strings.SplitSeq(label[2], "|") {
					require.True(t, known.values[s[1]+" "+label[1]+" "+value], "%s=%q: %s", label[1], value, expr)
					matched++
				}
			}
		}
	}
	require.Greater(t, matched, 5)
}

// TestRulesAreShipped looks for the files with alerts, and the jobs that these name, in the package and its
// description.
func TestRulesAreShipped(t *testing.T) {
	description, err := os.ReadFile(clitest.Path("dist/README.md"))
	require.NoError(t, err)
	files, err := filepath.Glob(clitest.Path("dist/prometheus/*.rules.yml"))
	require.NoError(t, err)
	require.Len(t, files, 2)
	shipped := valuesOf(readYAML(t, "dist/deb/nfpm.yaml"), "dst")
	for _, file := range files {
		name := filepath.Base(file)
		require.Contains(t, shipped, "/usr/share/doc/sluice/"+name)
		require.Contains(t, string(description), "`prometheus/"+name+"`")
		require.Regexp(t, `(?m)^ +rule_files: \[.*/usr/share/doc/sluice/`+name, string(description))
		for _, expr := range valuesOf(readYAML(t, "dist/prometheus/"+name), "expr") {
			for _, label := range matcher.FindAllStringSubmatch(expr, -1) {
				if label[1] == "job" {
					require.Regexp(t, `(?m)^ +- job_name: `+label[2]+`\b`, string(description))
				}
			}
		}
	}
}

func readYAML(t *testing.T, file string) (content any) {
	text, err := os.ReadFile(clitest.Path(file))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &content), "JSON is YAML, too")
	return content
}

// valuesOf returns all strings that are values of a key.
func valuesOf(content any, key string) (values []string) {
	switch c := content.(type) {
	case map[string]any:
		for k, v := range c {
			if s, ok := v.(string); ok && k == key {
				values = append(values, s)
			}
			values = append(values, valuesOf(v, key)...)
		}
	case []any:
		for _, v := range c {
			values = append(values, valuesOf(v, key)...)
		}
	}
	return values
}

// TestDashboard checks that panels have an id of their own, a title and an expression, and do not overlap.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile(clitest.Path("dist/grafana/sluice.json"))
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			ID          int
			Type, Title string
			GridPos     struct{ X, Y, W, H int }
			Targets     []struct{ RefID, Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	ids, cells := make(map[int]bool), make(map[[2]int]string)
	for _, p := range dashboard.Panels {
		require.False(t, ids[p.ID], "panel %q has the id of another", p.Title)
		ids[p.ID] = true
		require.NotEmpty(t, p.Title)
		require.Equal(t, p.Type == "row", len(p.Targets) == 0, p.Title)
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				require.Empty(t, cells[cell], "%q covers another panel", p.Title)
				require.Less(t, cell[0], 24)
				cells[cell] = p.Title
			}
		}
	}
}

// manifest is how a container of the relay is described, for Docker or for Kubernetes.
type manifest struct {
	args, capabilities []string
	hostNetwork        bool
}

// TestManifests compares the descriptions of containers with the unit of systemd: they grant the same capabilities. All
// have flags that the relay knows.
func TestManifests(t *testing.T) {
	granted := unitCapabilities(t)
	for file, read := range map[string]func(*testing.T, []byte) manifest{
		"dist/compose.yaml":           readCompose,
		"dist/kubernetes/sluice.yaml": readKubernetes,
		"dist/Dockerfile":             readDockerfile,
	} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(clitest.Path(file))
			require.NoError(t, err)
			m := read(t, text)
			require.ElementsMatch(t, granted, m.capabilities)
			require.True(t, m.hostNetwork)
			requireRelayArgs(t, m.args)
		})
	}
}

func unitCapabilities(t *testing.T) []string {
	file, err := os.Open(clitest.Path("dist/sluice-relay.service"))
	require.NoError(t, err)
	defer file.Close()
	options, err := unit.DeserializeOptions(file)
	require.NoError(t, err)
	find := func(name string) []string {
		i := slices.IndexFunc(options, func(o *unit.UnitOption) bool { return o.Name == name })
		require.GreaterOrEqual(t, i, 0, name)
		return strings.Fields(strings.ReplaceAll(options[i].Value, "CAP_", ""))
	}
	require.Equal(t, find("CapabilityBoundingSet"), find("AmbientCapabilities"))
	for _, name := range []string{"ExecStart", "ExecReload"} {
		args := find(name)
		requireRelayArgs(t, args[1:len(args)-1]) // the last is a variable
	}
	return find("AmbientCapabilities")
}

// requireRelayArgs parses the arguments of sluice.
func requireRelayArgs(t *testing.T, args []string) {
	t.Helper()
	require.NotEmpty(t, args)
	require.Equal(t, "relay", args[0])
	var f relayFlags
	cmd := new(cobra.Command)
	f.register(cmd)
	require.NoError(t, cmd.ParseFlags(args[1:]))
	require.NoError(t, f.check())
}

func readCompose(t *testing.T, text []byte) manifest {
	var c struct {
		Services map[string]struct {
			NetworkMode string   `yaml:"network_mode"`
			CapDrop     []string `yaml:"cap_drop"`
			CapAdd      []string `yaml:"cap_add"`
			Command     []string
			HealthCheck struct{ Test []string }
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &c))
	s := c.Services["relay"]
	require.Equal(t, []string{"ALL"}, s.CapDrop)
	require.Equal(t, []string{"CMD", "/sluice", "relay", "status"}, s.HealthCheck.Test)
	return manifest{s.Command, s.CapAdd, s.NetworkMode == "host"}
}

func readKubernetes(t *testing.T, text []byte) manifest {
	type probe struct {
		HTTPGet struct {
			Host, Path string
			Port       int
		} `yaml:"httpGet"`
	}
	var d struct {
		Kind     string
		Metadata struct{ Name, Namespace string }
		Spec     struct {
			Selector struct {
				MatchLabels map[string]string `yaml:"matchLabels"`
			}
			Template struct {
				Metadata struct{ Labels map[string]string }
				Spec     struct {
					HostNetwork bool `yaml:"hostNetwork"`
					Grace       int  `yaml:"terminationGracePeriodSeconds"`
					Containers  []struct {
						Args      []string
						Security  struct{ Capabilities struct{ Drop, Add []string } } `yaml:"securityContext"`
						Startup   probe                                               `yaml:"startupProbe"`
						Readiness probe                                               `yaml:"readinessProbe"`
						Liveness  probe                                               `yaml:"livenessProbe"`
						Mounts    []struct{ Name string }                             `yaml:"volumeMounts"`
					}
					Volumes []struct{ Name string }
				}
			}
		}
	}
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	for d.Kind != "DaemonSet" {
		require.NoError(t, decoder.Decode(&d))
	}
	require.ErrorIs(t, decoder.Decode(new(any)), io.EOF, "nothing follows")
	require.Equal(t, d.Spec.Selector.MatchLabels, d.Spec.Template.Metadata.Labels)
	spec := d.Spec.Template.Spec
	require.Len(t, spec.Containers, 1)
	c := spec.Containers[0]
	require.Equal(t, spec.Volumes[0].Name, c.Mounts[0].Name)
	require.Equal(t, []string{"ALL"}, c.Security.Capabilities.Drop)
	served := map[string]bool{"/readyz": true, "/healthz": true} // TestAdminHosts gets them
	for _, p := range []probe{c.Startup, c.Readiness, c.Liveness} {
		var f relayFlags
		f.register(new(cobra.Command))
		require.Equal(t, f.admin, fmt.Sprintf("%s:%d", p.HTTPGet.Host, p.HTTPGet.Port))
		require.True(t, served[p.HTTPGet.Path], p.HTTPGet.Path)
	}
	return manifest{c.Args, c.Security.Capabilities.Add, spec.HostNetwork}
}

// readDockerfile reads what an image has of its own. Its network is chosen later.
func readDockerfile(t *testing.T, text []byte) manifest {
	caps := regexp.MustCompile(`setcap (\S+)=p `).FindSubmatch(text)
	require.NotNil(t, caps)
	m := manifest{hostNetwork: true}
	for c := range strings.SplitSeq(string(caps[1]), ",") {
		m.capabilities = append(m.capabilities, strings.TrimPrefix(strings.ToUpper(c), "CAP_"))
	}
	cmd := regexp.MustCompile(`(?m)^CMD (\[.*\])$`).FindSubmatch(text)
	require.NotNil(t, cmd)
	require.NoError(t, json.Unmarshal(cmd[1], &m.args))
	return m
}
