//go:build !linux

package main

// dropPrivileges does nothing: only Linux has these capabilities.
func dropPrivileges(bool) error { return nil }
