package media

import (
	"sluice/clock"
	"sluice/congestion"
	"time"
)

// fixedController has a window that the test sets, and notes its calls.
type fixedController struct {
	window   int
	rate     int64
	acked    []congestion.AckEvent
	lost     []congestion.LossEvent
	spurious []clock.Time
	resets   int
}

func (c *fixedController) Acked(e congestion.AckEvent) { c.acked = append(c.acked, e) }
func (c *fixedController) Lost(e congestion.LossEvent) { c.lost = append(c.lost, e) }
func (c *fixedController) Spurious(sent clock.Time)    { c.spurious = append(c.spurious, sent) }
func (c *fixedController) Window() int                 { return c.window }
func (c *fixedController) Rate(time.Duration) int64    { return c.rate }
func (c *fixedController) Reset(int)                   { c.resets++ }

// withController makes the sender use f.
func withController(f *fixedController) func(*worldConfig) {
	return func(c *worldConfig) {
		c.sender.NewController = func(int) congestion.Controller { return f }
	}
}
