package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

func init() { scriptCommands["unprotected"] = unprotected }

// unprotected builds programs without packet protection, and sets UNPROTECTED to their directory.
func unprotected(ts *testscript.TestScript, _ bool, _ []string) {
	dir, err := buildUnprotected()
	ts.Check(err)
	ts.Setenv("UNPROTECTED", dir)
}

// buildUnprotected builds the programs in the place where sluice-lab looks for them.
func buildUnprotected() (dir string, err error) {
	beside, err := exec.LookPath("sluice-lab")
	if err != nil {
		return "", err
	}
	dir = filepath.Join(filepath.Dir(beside), "unprotected")
	cmd := exec.Command("go", "build", "-tags", "unprotected", "-o", dir+string(filepath.Separator),
		"sluice/cmd/sluice", "sluice/cmd/sluice-lab")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build without packet protection: %w\n%s", err, out)
	}
	return dir, nil
}

// TestBuilds looks for what stands for the tags of packets without protection: only the build for labs has it.
func TestBuilds(t *testing.T) {
	const tag = "UNPROTECTED-QUIC"
	dir, err := buildUnprotected()
	require.NoError(t, err)
	for _, name := range []string{"sluice", "sluice-lab"} {
		path, err := exec.LookPath(name)
		require.NoError(t, err)
		for path, want := range map[string]bool{path: false, filepath.Join(dir, name): true} {
			program, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, want, bytes.Contains(program, []byte(tag)), path)
		}
	}
}
