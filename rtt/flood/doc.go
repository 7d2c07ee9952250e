//go:build !linux

// Package flood makes the kernel forward TCP traffic, as fast as one CPU can. It needs Linux.
package flood
