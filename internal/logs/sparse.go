// Package logs keeps peers from filling a log.
package logs

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Interval is the least time between two lines of a [Sparse] logger with the same key: short enough to notice a
// problem, long enough for a log that anybody can cause lines in.
const Interval = 10 * time.Second

// Sparse is a logger for lines that peers can cause. It leaves out lines that come too often. Its methods may be called
// on any goroutine.
type Sparse struct {
	log *slog.Logger

	mu    sync.Mutex // guards all below
	lines map[string]*line
}

// line is what is known of the lines with one key.
type line struct {
	next    time.Time // when the next may be logged
	omitted int       // since the last
}

// NewSparse returns a logger that writes to log.
func NewSparse(log *slog.Logger) *Sparse { return &Sparse{log: log, lines: make(map[string]*line)} }

// Log logs a message, unless one with the same key was logged in the last Interval. The attribute "omitted" says how
// many lines were left out since then. A key must be a constant, or one of few: each is remembered for ever.
func (s *Sparse) Log(level slog.Level, key, message string, args ...any) {
	omitted, ok := s.admit(key, time.Now())
	if !ok {
		return
	}
	if omitted > 0 {
		args = append(args, "omitted", omitted)
	}
	s.log.Log(context.Background(), level, message, args...)
}

// admit reports whether a line may be logged now, and how many were left out before it.
func (s *Sparse) admit(key string, now time.Time) (omitted int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[key]
	if l == nil {
		l = new(line)
		s.lines[key] = l
	}
	if now.Before(l.next) {
		l.omitted++
		return 0, false
	}
	omitted = l.omitted
	*l = line{next: now.Add(Interval)}
	return omitted, true
}
