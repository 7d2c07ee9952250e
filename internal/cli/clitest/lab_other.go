//go:build !linux

package clitest

// labsPermitted reports whether this process may build labs, which need Linux.
func labsPermitted() bool { return false }
