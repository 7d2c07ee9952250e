//go:build !linux

package command

// dropPrivileges does nothing: only Linux has these capabilities.
func dropPrivileges(bool) error { return nil }
