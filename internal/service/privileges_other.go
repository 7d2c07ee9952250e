//go:build !linux

package service

// RaisePrivileges does nothing: only Linux has these capabilities.
func RaisePrivileges() error { return nil }
