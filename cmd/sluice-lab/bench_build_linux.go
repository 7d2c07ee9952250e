package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
)

// unprotectedTag is the build tag of programs without packet protection.
const unprotectedTag = "unprotected"

// findUnprotected returns the directory of a build without packet protection: beside this program, where
// 'make unprotected' puts it.
func findUnprotected() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(filepath.Dir(self), unprotectedTag)
	for _, name := range []string{"sluice", programName} {
		if err := checkUnprotected(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf("--unprotected: %w: run 'make unprotected'", err)
		}
	}
	return dir, nil
}

// checkUnprotected returns an error if a program protects packets: its results would be mislabelled.
func checkUnprotected(program string) error {
	info, err := buildinfo.ReadFile(program)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("there is no program %s", program)
	}
	if err != nil {
		return err
	}
	if !slices.Contains(info.Settings, debug.BuildSetting{Key: "-tags", Value: unprotectedTag}) {
		return fmt.Errorf("%s was built without the tag %s", program, unprotectedTag)
	}
	return nil
}
