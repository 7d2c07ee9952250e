package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"sluice/clock"
)

// StatusLine is standard error with a changing line at its bottom, which is shown only on a terminal. Output appears
// above the line.
type StatusLine struct {
	w        io.Writer
	terminal bool

	mu   sync.Mutex
	line string
}

// NewStatusLine returns an empty line at the bottom of w.
func NewStatusLine(w io.Writer) *StatusLine { return &StatusLine{w: w, terminal: IsTerminal(w)} }

const eraseLine = "\r\x1b[K"

// Write implements [io.Writer]. Each call's text must end with a line feed.
func (s *StatusLine) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line == "" {
		return s.w.Write(b)
	}
	if _, err := fmt.Fprintf(s.w, "%s%s%s", eraseLine, b, s.line); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Show replaces the line.
func (s *StatusLine) Show(format string, args ...any) {
	if !s.terminal {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line = fmt.Sprintf(format, args...)
	fmt.Fprint(s.w, eraseLine, s.line)
}

// Clear removes the line.
func (s *StatusLine) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line != "" {
		s.line = ""
		fmt.Fprint(s.w, eraseLine)
	}
}

// Every calls f at intervals, and once more when the function that it returns is called.
func Every(interval time.Duration, f func()) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for range clock.Every(interval, done) {
			f()
		}
		f()
	}()
	return func() {
		close(done)
		<-ended
	}
}
