package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress shows one line that changes, on a terminal only.
type progress struct {
	w     io.Writer
	shown bool
	mu    sync.Mutex
}

// newProgress returns nil if w is no terminal.
func newProgress(w io.Writer) *progress {
	if !isTerminal(w) {
		return nil
	}
	return &progress{w: w}
}

// show replaces the line.
func (p *progress) show(format string, args ...any) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown = true
	fmt.Fprintf(p.w, "\r\x1b[K"+format, args...)
}

// end leaves the line as it is and goes to the next one.
func (p *progress) end() {
	if p != nil && p.shown {
		fmt.Fprintln(p.w)
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
