package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// findSluice returns the path of the program sluice: beside this program, where 'make build' puts both, or in PATH.
func findSluice() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	beside := filepath.Join(filepath.Dir(self), "sluice")
	if path, err := exec.LookPath(beside); err == nil {
		return path, nil
	}
	path, err := exec.LookPath("sluice")
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return "", fmt.Errorf("the program sluice is neither at %s nor in PATH: run 'make build'", beside)
	}
	return filepath.Abs(path)
}
