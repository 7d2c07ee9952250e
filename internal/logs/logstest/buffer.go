// Package logstest collects what goroutines log, for tests.
package logstest

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

// Buffer is a bytes.Buffer for several goroutines.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String returns all that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// NoErrors returns a logger that ends the process at an error, with its text. Servers recover panics, and say so in an
// error; they may do that when a connection has ended, and no test waits for it.
func NoErrors() *slog.Logger {
	return slog.New(slog.NewTextHandler(fatal{}, &slog.HandlerOptions{Level: slog.LevelError}))
}

type fatal struct{}

func (fatal) Write(line []byte) (int, error) { panic(strings.ReplaceAll(string(line), `\n`, "\n")) }
