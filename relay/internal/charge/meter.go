package charge

import (
	"context"
	"time"

	"golang.org/x/time/rate"
)

// meter measures bytes against a rate. All use beyond it is a debt, which is paid as time passes. A nil meter has
// no limit.
type meter struct{ bucket *rate.Limiter }

// newMeter returns a meter for bits per second; negative: no limit.
func newMeter(bits int) *meter {
	if bits < 0 {
		return nil
	}
	bytes := bits / 8
	return &meter{rate.NewLimiter(rate.Limit(bytes), bytes*int(Burst/time.Second))}
}

// add counts bytes.
func (m *meter) add(n int) {
	if m == nil {
		return
	}
	for now := time.Now(); n > 0; { // a reservation is at most as large as the bucket
		part := min(n, m.bucket.Burst())
		m.bucket.ReserveN(now, part)
		n -= part
	}
}

// inDebt reports whether more was used than the rate allows.
func (m *meter) inDebt() bool { return m != nil && m.bucket.Tokens() < 0 }

// wait waits until there is no debt, or the context is done.
func (m *meter) wait(ctx context.Context) {
	if m != nil {
		_ = m.bucket.WaitN(ctx, 0) // fails only if the context is done
	}
}

// isFull reports whether the meter is as good as new.
func (m *meter) isFull() bool { return m == nil || m.bucket.Tokens() >= float64(m.bucket.Burst()) }
