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
