package events

import (
	"context"
	"log/slog"
	"sync/atomic"

	"golang.org/x/time/rate"

	"sluice/relay"
)

// Peers cause events, so their number is bounded: logRate is how many are logged in a second on average, and logBurst
// how many at once.
const (
	logRate  = 100
	logBurst = 1000
)

// Log writes events as log lines of level info.
type Log struct {
	log     *slog.Logger
	limit   *rate.Limiter
	omitted atomic.Int64 // since the last line
}

// NewLog returns a Log.
func NewLog(log *slog.Logger) *Log { return &Log{log: log, limit: rate.NewLimiter(logRate, logBurst)} }

// Add logs an event, unless there were too many. The line after a gap says how many were left out.
func (l *Log) Add(e relay.Event) {
	if !l.limit.Allow() {
		l.omitted.Add(1)
		return
	}
	r := newRecord(&e, "", 0)
	args := []any{
		"type", r.Type, "session", r.Session, "remote", r.Remote, "transport", r.Transport,
		"authority", r.Authority, "path", r.Path,
	}
	if r.Upstream != "" {
		args = append(args, "upstream", r.Upstream)
	}
	if r.Track != nil {
		args = append(args, "namespace", *r.Namespace, "track", *r.Track)
	}
	if r.Reason != "" {
		args = append(args, "reason", r.Reason)
	}
	if n := l.omitted.Swap(0); n > 0 {
		args = append(args, "omitted", n)
	}
	l.log.Log(context.Background(), slog.LevelInfo, "event", args...)
}
