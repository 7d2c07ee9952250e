// Package logs keeps peers from filling a log.
package logs

import (
	"log/slog"
	"sync"
	"time"
)

// Interval is the least time between two lines of a [Sparse] logger with the same key: short enough to notice a
// problem, long enough for a log that anybody can cause lines in.
const Interval = 10 * time.Second

// Sparse is a logger whose keys have a [Line] each. Its methods may be called on any goroutine.
type Sparse struct {
	log *slog.Logger

	mu    sync.Mutex // guards lines
	lines map[string]*Line
}

// NewSparse returns a logger that writes to log.
func NewSparse(log *slog.Logger) *Sparse { return &Sparse{log: log, lines: make(map[string]*Line)} }

// Log logs a message, unless one with the same key was logged in the last Interval, as [Line.Log] does. A key must be a
// constant, or one of few: each is remembered for ever.
func (s *Sparse) Log(level slog.Level, key, message string, args ...any) {
	s.line(key).Log(s.log, Interval, level, message, args...)
}

func (s *Sparse) line(key string) *Line {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[key]
	if l == nil {
		l = new(Line)
		s.lines[key] = l
	}
	return l
}
