package logs

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Line is a line that peers can cause in a log. Those that come too soon after the last one are left out. The zero
// value is ready for use. Its methods may be called on any goroutine.
type Line struct {
	mu      sync.Mutex
	next    time.Time // when it may be logged again
	omitted int       // since the last
}

// Log logs a message, unless the last one was logged less than interval ago. The attribute "omitted" says how many were
// left out since then.
func (l *Line) Log(log *slog.Logger, interval time.Duration, level slog.Level, message string, args ...any) {
	omitted, ok := l.admit(time.Now(), interval)
	if !ok {
		return
	}
	if omitted > 0 {
		args = append(args, "omitted", omitted)
	}
	log.Log(context.Background(), level, message, args...)
}

// admit reports whether the line may be logged now, and how many were left out before it.
func (l *Line) admit(now time.Time, interval time.Duration) (omitted int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.next) {
		l.omitted++
		return 0, false
	}
	omitted, l.omitted = l.omitted, 0
	l.next = now.Add(interval)
	return omitted, true
}
