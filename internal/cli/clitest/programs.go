package clitest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Main runs the tests of a package with programs of this module in PATH: sluice, sluice-lab. It returns the exit code.
//
//	func TestMain(m *testing.M) { os.Exit(clitest.Main(m, "sluice")) }
func Main(m interface{ Run() int }, programs ...string) int {
	remove, err := build(programs)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer remove()
	return m.Run()
}

// build builds programs into a directory that it puts into PATH.
func build(programs []string) (remove func(), err error) {
	dir, err := os.MkdirTemp("", "sluice-test-")
	if err != nil {
		return nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	for _, p := range programs {
		args = append(args, "sluice/cmd/"+p)
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		remove()
		return nil, fmt.Errorf("build %v: %w\n%s", programs, err, out)
	}
	return remove, os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

// Path returns the path of a file in the top folder of the module. Tests run in the folder of their package.
func Path(name string) string {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil || dir == filepath.Dir(dir) {
			break
		}
	}
	return filepath.Join(dir, name)
}
