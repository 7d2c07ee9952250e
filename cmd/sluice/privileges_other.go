//go:build !linux

package main

// raisePrivileges does nothing: only Linux has these capabilities.
func raisePrivileges() error { return nil }

// dropPrivileges does nothing: only Linux has these capabilities.
func dropPrivileges(bool) error { return nil }

// dropMonitorPrivileges does nothing: only Linux has these capabilities.
func dropMonitorPrivileges(bool) error { return nil }
