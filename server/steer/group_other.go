//go:build !linux

package steer

import (
	"errors"
	"net"
)

var errNeedsLinux = errors.New("steer datagrams: needs Linux")

// Group exists on Linux only.
type Group struct{}

// Maps are file descriptors on Linux.
type Maps [6]int

// Create fails.
func Create(*net.UDPConn, int) (*Group, error) { return nil, errNeedsLinux }

// Join fails.
func Join(*net.UDPAddr, Number, int, Maps) (*Group, error) { return nil, errNeedsLinux }

// Sockets returns nothing.
func (*Group) Sockets() []*net.UDPConn { return nil }

// Woken does nothing.
func (*Group) Woken(int) {}

// Arrivals returns nothing.
func (*Group) Arrivals() ([]Arrivals, error) { return nil, nil }

// Maps returns nothing.
func (*Group) Maps() Maps { return Maps{} }

// Next fails.
func (*Group) Next() (Number, error) { return 0, errNeedsLinux }

// Tell fails.
func (*Group) Tell(int) error { return errNeedsLinux }

// Draining returns nothing.
func (*Group) Draining() ([]Process, error) { return nil, nil }

// Promote fails.
func (*Group) Promote(Number) error { return errNeedsLinux }

// Counts returns nothing.
func (*Group) Counts() (map[string]uint64, error) { return nil, nil }

// Close does nothing.
func (*Group) Close() error { return nil }
