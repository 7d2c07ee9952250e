package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"sluice/internal/cli"
	"sluice/internal/cli/clitest"
)

// settingsTable returns what docs/config.md says of each setting.
func settingsTable() string {
	var b strings.Builder
	_, _, groups := newSettings()
	for heading, flags := range groups.Each() {
		fmt.Fprintf(&b, "\n### %s\n\n| setting | default | |\n|---|---|---|\n", heading)
		for _, f := range flags {
			if !cli.IsSetting(f) {
				continue
			}
			kind, usage := pflag.UnquoteUsage(f)
			value := strings.Trim(settingText(f, f.DefValue), `"`)
			if value != "" && value != "[]" {
				value = "`" + value + "`"
			} else {
				value = ""
			}
			text := strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(usage)
			fmt.Fprintf(&b, "| `%s` %s | %s | %s |\n", f.Name, kind, value, text)
		}
	}
	return b.String()
}

// TestConfigMistakes expects a mistake in a file to be told with line and column, the value and the allowed values.
func TestConfigMistakes(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range [][2]string{
		{"listen: ':1'", "f: a certificate is required: --tls-cert FILE --tls-key FILE, "},
		{"cache-size: -1", "f:2:13: --cache-size: -1: must be between 0 and 1048576"},
		{"max-behind-size: 1048577", "f:2:18: --max-behind-size: 1048577: must be between 1 and 1048576"},
		{"sockets: 17", "f:2:10: --sockets: 17: must be between 0 and 16"},
		{"idle-timeout: -1s", "f:2:15: --idle-timeout: -1s: must be at least 0s"},
		{"quota-per-token: tracks=0", "f:2:18: quota-per-token: tracks: 0: must be between 1 and "},
		{"quota-exempt:\n  - ::1\n  - host", `f:4:5: --quota-exempt: "host": must be an address or a network such as `},
		{"qlog-match: [/live, 0%]", `f:2:21: --qlog-match: "0%": must be more than 0% and at most 100%`},
		{"rtsp: ':99999'", `f:2:7: --rtsp: ":99999": must be an address such as :8554, with a port up to 65535`},
		{"web: ':99999'", `f:2:6: --web: ":99999": must be on, off or an address such as :8443, with a port `},
		{"upstream: moqt://a\nupstream-sha256: 12", `f:3:18: --upstream-sha256: "12": must be a SHA-256 in 64 `},
		{"upstream: moqt://a\nupstream-announce: [a, b//c]", `f:3:24: --upstream-announce: "b//c": `},
		{"upstream: [moqt://a, ftp://b]", `f:2:22: --upstream: MoQ URL "ftp://b": must be moqt://host:port`},
		{"upstream-goaway-host: a", "f:2:23: --upstream-goaway-host: needs the URL of an upstream relay: "},
		{"scope: url\nupstream: moqt://a", "f:2:8: --scope url: must be one or path with --upstream"},
		{"auth-audience: me", "f:2:16: --auth-issuer and --auth-audience are about signed tokens; add "},
		{"auth-url: ftp://a", `f:2:11: --auth-url: URL with scheme "ftp": must be https or http`},
		{"event-url: ftp://a", `f:2:12: --event-url: URL with scheme "ftp": must be https or http`},
		{"event-secret-file: a", "f:2:20: --event-secret-file signs what --event-url gets"},
		{"otlp-url: a", "f:2:11: --otlp-url: must be a URL such as https://collector.example:4318"},
		{"cluster: true", "f:2:10: --cluster-advertise URL is required with --cluster"},
		{"cluster: true\ncluster-join: [a]", `f:3:16: --cluster-join: "a": must be an address such as west1.example:6`},
		{"cluster: true\ncluster-advertise: moqt://a\ncluster-listen: 127.0.0.1:0",
			"f:4:17: --cluster-listen: 127.0.0.1:0: must have a port between 1 and 65535"},
		{"cluster-advertise: moqt://a\ncluster-url: [nats://127.0.0.1, http://b]",
			`f:3:33: --cluster-url: "http://b": must be nats://host:port or tls://host:port`},
		{"cluster-advertise: moqt://a\ncluster-url: nats://192.0.2.1",
			"f:3:14: --cluster-url: 192.0.2.1:4222: nodes on other machines must prove who they are"},
		{"tls-cert: a\ntls-key: b", "f:1:6: if any flags in the group [--dev --tls-cert] are set none of the others"},
	} {
		text := "dev: true\n" + c[0]
		if strings.HasPrefix(c[0], "listen") {
			text = c[0]
		}
		require.NoError(t, os.WriteFile("f", []byte(text), 0o600))
		_, err := readConfig("f")
		require.Error(t, err, text)
		require.Truef(t, strings.HasPrefix(err.Error(), c[1]), "%s: %v", text, err)
	}
}

// TestConfigPage expects docs/config.md to have all settings. With SLUICE_UPDATE set it writes them there.
func TestConfigPage(t *testing.T) {
	path := clitest.Path("docs/config.md")
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, _ := strings.Cut(string(page), "<!-- settings -->\n")
	_, after, found := strings.Cut(rest, "\n<!-- end -->")
	require.True(t, found, "the page has no place for the settings")
	want := before + "<!-- settings -->\n" + settingsTable() + "\n<!-- end -->" + after
	if os.Getenv("SLUICE_UPDATE") != "" {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(page), "SLUICE_UPDATE=1 go test ./cmd/sluice -run ConfigPage writes the page anew")
}
