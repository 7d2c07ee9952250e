package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
)

// settable returns a command with a flag of each kind.
func settable() *cobra.Command {
	cmd := &cobra.Command{RunE: func(*cobra.Command, []string) error { return nil }}
	f := cmd.Flags()
	AddConfigFlag(cmd)
	f.Bool("dev", false, "")
	f.String("listen", ":1", "")
	f.Int("sockets", 1, "`number` of sockets")
	f.Float64("price", 0, "")
	f.Duration("drain", time.Second, "")
	f.StringSlice("origin", nil, "")
	f.Bool("replace", false, "")
	return cmd
}

// TestSettings expects the environment to count more than the command line, and that more than the file.
func TestSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "relay.yaml")
	text := "# a comment\ndev: true\nlisten: ':2'\nsockets: 3\norigin: [a, 'b,c']\ndrain: 5s\n"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	cmd := settable()
	require.NoError(t, cmd.ParseFlags([]string{"--config", path, "--listen=:9", "--sockets=9"}))
	getenv := func(name string) string {
		return map[string]string{"SLUICE_SOCKETS": "7", "SLUICE_REPLACE": "true", "SLUICE_OTHER": "x"}[name]
	}
	require.NoError(t, applySettings(cmd, getenv))
	got, from := map[string]string{}, map[string]string{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) { got[f.Name], from[f.Name] = f.Value.String(), Origin(f) })
	require.Equal(t, map[string]string{
		"config": path, "dev": "true", "listen": ":9", "sockets": "7", "price": "0", "drain": "5s",
		"origin": `[a,"b,c"]`, "replace": "false",
	}, got)
	require.Equal(t, map[string]string{
		"config": "--config", "dev": path + ":2:6", "listen": "--listen", "sockets": "SLUICE_SOCKETS", "price": "",
		"drain": path + ":6:8", "origin": path + ":5:9", "replace": "",
	}, from)
	require.True(t, IsFrom(cmd.Flags().Lookup("drain"), path))
	require.False(t, IsFrom(cmd.Flags().Lookup("sockets"), path))
	err := ExplainOrigin(cmd.Flags(), Usage("--drain: 5s: is too long"))
	require.EqualError(t, err, path+":6:8: --drain: 5s: is too long")
	err = ExplainOrigin(cmd.Flags(), Usage(`--origin: "b,c": is no origin`))
	require.EqualError(t, err, path+`:5:13: --origin: "b,c": is no origin`)
	err = ExplainOrigin(cmd.Flags(), Usage("--price is required with --origin"))
	require.EqualError(t, err, path+":5:9: --price is required with --origin")
	require.EqualError(t, ExplainOrigin(cmd.Flags(), Usage("--listen: in use")), "--listen: in use")

	require.NoError(t, applySettings(new(cobra.Command), getenv), "a command without files")
	bad := settable()
	err = applySettings(bad, func(name string) string { return map[string]string{"SLUICE_DRAIN": "soon"}[name] })
	require.EqualError(t, err, `SLUICE_DRAIN: drain: "soon": must be a duration such as 30s or 1h`)
}

// TestSettingMistakes expects each mistake to be named, with its line and column.
func TestSettingMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "",
		"# nothing\n":          "",
		"listn: x":             "f:1:1: listn: no such setting; did you mean listen?",
		"\nzzzzzzzz: x":        "f:2:1: zzzzzzzz: no such setting",
		"replace: true":        "f:1:1: replace: no such setting",
		"config: x":            "f:1:1: config: no such setting",
		"dev: maybe":           `f:1:6: dev: "maybe": must be true or false`,
		"origin: [a, [b]]":     "f:1:13: origin: must have a value, such as text or a number",
		"origin: '\"a'":        `f:1:9: origin: "\"a": must be a list such as [a, b]`,
		"sockets: many":        `f:1:10: sockets: "many": must be a whole number`,
		"price: low":           `f:1:8: price: "low": must be a number`,
		"drain: 5":             `f:1:8: drain: "5": must be a duration such as 30s or 1h`,
		"drain: [5s, 6s]":      "f:1:8: drain: must be one value, and not a list",
		"listen:":              "f:1:8: listen: must have a value, such as text or a number",
		"listen: {a: b}":       "f:1:9: listen: must have a value, such as text or a number",
		"dev: true\ndev: true": "f:2:1: dev: is in line 1, too",
		"dev: maybe\nprice: x": "f:1:6: dev: \"maybe\": must be true or false\n" +
			"f:2:8: price: \"x\": must be a number",
		"sockets: 9999999999999999999": `f:1:10: sockets: "9999999999999999999": must be a whole number, nearer to 0`,
		"- dev":                        `f:1:1: must have lines such as listen: ":443"`,
		"dev: true\n---\ndev: true":    "f:2:1: must be one document, without ---",
		"dev: [": "f:1: did not find expected node content: " +
			"is a line indented, or a quote or bracket missing?",
	} {
		err := setFlags(settable().Flags(), "f", []byte(text))
		if want == "" {
			require.NoError(t, err, text)
			continue
		}
		require.EqualError(t, err, want, text)
	}
	require.ErrorIs(t, ReadFlags(settable().Flags(), filepath.Join(t.TempDir(), "none")), os.ErrNotExist)
	large := filepath.Join(t.TempDir(), "large")
	require.NoError(t, os.WriteFile(large, make([]byte, maxSettings+1), 0o600))
	require.ErrorContains(t, ReadFlags(settable().Flags(), large), "larger than 1048576 bytes")
}

// FuzzSettings looks for files that need much time or memory, or that end the program.
func FuzzSettings(f *testing.F) {
	f.Add([]byte("dev: true\norigin: [a, b]\n"))
	f.Add([]byte("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		testlimit.Run(t, len(text), 1000, func() { _ = setFlags(settable().Flags(), "f", text) })
	})
}
