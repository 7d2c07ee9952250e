package pub

import (
	"context"
	"time"
)

// maxJump is the largest step of media time that the pacer waits for. A larger step is a break in the source's
// timeline.
const maxJump = 10 * time.Second

// pacer releases media at the speed of its decode times.
type pacer struct {
	begun bool
	zero  time.Time     // when media time 0 is due
	last  time.Duration // the latest media time
}

// wait waits until media of this time is due.
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
