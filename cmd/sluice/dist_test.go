package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coreos/go-systemd/v22/unit"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"sluice/internal/cli"
	"sluice/internal/cli/clitest"
	"sluice/moqt"
)

func readYAML(t *testing.T, file string) (content any) {
	text, err := os.ReadFile(clitest.Path(file))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &content), "JSON is YAML, too")
	return content
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
		"dist/image.json":             readImage,
	} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(clitest.Path(file))
			require.NoError(t, err)
			m := read(t, text)
			require.ElementsMatch(t, granted, m.capabilities)
			require.True(t, m.hostNetwork)
			requireRelayArgs(t, m.args)
			require.Contains(t, string(text), "/var/lib/sluice-relay/withdrawn")
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
	f, flags := parse(t, args[1:]...)
	if path := flags.Lookup(cli.ConfigFlag).Value.String(); path != "" {
		require.NoError(t, cli.ReadFlags(flags, clitest.Path("dist/"+filepath.Base(path))))
	}
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
		f, _ := parse(t)
		require.Equal(t, f.admin, fmt.Sprintf("%s:%d", p.HTTPGet.Host, p.HTTPGet.Port))
		require.True(t, served[p.HTTPGet.Path], p.HTTPGet.Path)
	}
	return manifest{c.Args, c.Security.Capabilities.Add, spec.HostNetwork}
}

// readImage reads the description of an image. Its network is chosen later.
func readImage(t *testing.T, text []byte) manifest {
	var d struct {
		Capabilities []string
		Config       struct {
			User            string
			Entrypoint, Cmd []string
		}
	}
	require.NoError(t, json.Unmarshal(text, &d))
	require.Equal(t, "65532:65532", d.Config.User)
	require.Equal(t, []string{"/sluice"}, d.Config.Entrypoint)
	return manifest{d.Config.Cmd, d.Capabilities, true}
}

// TestInteropRunner compares the entry for moq-interop-runner with the versions that the relay speaks.
func TestInteropRunner(t *testing.T) {
	text, err := os.ReadFile(clitest.Path("dist/interop-runner/implementations.json"))
	require.NoError(t, err)
	var entries map[string]struct {
		Versions []string `json:"draft_versions"`
	}
	require.NoError(t, json.Unmarshal(text, &entries))
	var want []string
	for _, v := range slices.Backward(moqt.Versions()) {
		want = append(want, fmt.Sprintf("draft-%d", uint16(v)))
	}
	require.Equal(t, want, entries["sluice"].Versions)
}
