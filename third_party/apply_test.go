// Package thirdparty has no code: apply.sh makes the patched modules.
package thirdparty

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const quicGo = "github.com/quic-go/quic-go"

// TestChangedModule changes a byte of an unpacked release in the module cache. apply.sh refuses it, and leaves no src.
func TestChangedModule(t *testing.T) {
	version := run(t, "", "go", "list", "-m", "-f", "{{.Version}}", quicGo)
	cache := filepath.Join(t.TempDir(), "cache")
	release := filepath.Join(cache, quicGo+"@"+version)
	from := run(t, "/", "env", "GOFLAGS=-mod=mod", "go", "mod", "download", "-json", quicGo+"@"+version)
	require.NotEmpty(t, from)
	original := run(t, "", "go", "env", "GOMODCACHE")
	for _, part := range []string{quicGo + "@" + version, "cache/download/" + quicGo} {
		require.NoError(t, os.CopyFS(filepath.Join(cache, part), os.DirFS(filepath.Join(original, part))))
	}

	out, err := apply(t, cache)
	require.NoError(t, err, out)
	file := filepath.Join(release, "server.go")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	text[len(text)/2] ^= 1
	require.NoError(t, os.Chmod(file, 0o600))
	require.NoError(t, os.WriteFile(file, text, 0o600))
	out, err = apply(t, cache)
	require.Error(t, err)
	require.Contains(t, out, "third_party: "+quicGo+" "+version+": the files in "+release+" have the hash h1:")
}

// otherSeries are the lines of apply.sh about other modules than quic-go.
var otherSeries = regexp.MustCompile(`(?m)^apply \S+ (webtransport-go|gortsplib|ethtool)\n`)

// apply runs apply.sh for quic-go alone, in a copy of this folder without results, with a module cache.
func apply(t *testing.T, cache string) (out string, err error) {
	root := t.TempDir()
	dir := filepath.Join(root, "third_party")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "quic-go"), 0o755))
	patches, err := filepath.Glob("quic-go/*.patch")
	require.NoError(t, err)
	for _, name := range append(patches, "apply.sh", "hash.go", "sums", "../go.mod") {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		if name == "apply.sh" {
			text = otherSeries.ReplaceAll(text, nil)
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o755))
	}
	cmd := exec.Command(filepath.Join(dir, "apply.sh"))
	cmd.Env = append(os.Environ(), "GOMODCACHE="+cache, "GOPROXY=off", "GOSUMDB=off")
	text, err := cmd.CombinedOutput()
	if err != nil {
		require.NoDirExists(t, filepath.Join(dir, "quic-go/src"))
	} else {
		require.FileExists(t, filepath.Join(dir, "quic-go/src/hooks.go"))
	}
	return string(text), err
}

// run returns what a command prints, without the last newline.
func run(t *testing.T, dir, name string, args ...string) string {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}
