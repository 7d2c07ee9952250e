package rtt

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// wallClock converts the kernel's monotonic time to wall time, with the difference at the last sync.
type wallClock struct {
	offset atomic.Int64 // wall - monotonic, ns
}

func newWallClock() *wallClock {
	c := new(wallClock)
	c.sync()
	return c
}

// monotonic returns the kernel's monotonic time, or 0 if the kernel does not say.
func monotonic() uint64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return uint64(t.Nano())
}

// sync measures the difference again: the wall clock can be set.
func (c *wallClock) sync() {
	before := time.Now()
	mono := monotonic()
	wall := before.Add(time.Since(before) / 2)
	c.offset.Store(wall.UnixNano() - int64(mono))
}

func (c *wallClock) time(kernel uint64) time.Time { return time.Unix(0, int64(kernel)+c.offset.Load()) }
