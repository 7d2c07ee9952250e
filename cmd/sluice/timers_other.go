//go:build !linux

package main

// coarsenTimers does nothing: only Linux has a timer slack.
func coarsenTimers() {}
