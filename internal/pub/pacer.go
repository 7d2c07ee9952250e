package pub

import (
	"context"
	"time"
)

// maxJump is the largest step of media time that is waited for. Larger ones are breaks in the timeline of the source.
const maxJump = 10 * time.Second

// pacer releases media at the speed of its decode times.
type pacer struct {
	begun bool
	zero  time.Time     // when media time 0 is, was or would have been due
	last  time.Duration // media time that was released last
}

// wait returns when media of that time is due.
func (p *pacer) wait(ctx context.Context, at time.Duration) error {
	now := time.Now()
	if jump := at - p.last; !p.begun || jump > maxJump || jump < -maxJump {
		p.begun, p.zero = true, now.Add(-at)
	}
	p.last = at
	delay := p.zero.Add(at).Sub(now)
	if delay <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
