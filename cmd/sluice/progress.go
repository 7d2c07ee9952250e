package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// statusLine is standard error with a line at its bottom that changes, which is shown on a terminal only. What is written goes above
// the line.
type statusLine struct {
	w        io.Writer
	terminal bool

	mu   sync.Mutex
	line string
}

func newStatusLine(w io.Writer) *statusLine { return &statusLine{w: w, terminal: isTerminal(w)} }

const eraseLine = "\r\x1b[K"

// Write implements [io.Writer]. Calls have to end with a line feed.
func (s *statusLine) Write(b []byte) (int, error) {
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

// show replaces the line.
func (s *statusLine) show(format string, args ...any) {
	if !s.terminal {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line = fmt.Sprintf(format, args...)
	fmt.Fprint(s.w, eraseLine, s.line)
}

// clear removes the line.
func (s *statusLine) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line != "" {
		s.line = ""
		fmt.Fprint(s.w, eraseLine)
	}
}

// bytesText is a number of bytes for people.
func bytesText(n uint64) string {
	const unit = 1000
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	v, prefix := float64(n)/unit, 0
	for ; v >= unit && prefix < 3; prefix++ {
		v /= unit
	}
	return fmt.Sprintf("%.1f %cB", v, "kMGT"[prefix])
}

// secondsText is a duration for people.
func secondsText(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
