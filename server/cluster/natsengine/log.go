package natsengine

import (
	"fmt"
	"log/slog"
)

// serverLog writes the log of an embedded server to the relay's. It implements server.Logger.
type serverLog struct{ log *slog.Logger }

// Noticef implements server.Logger.
func (l *serverLog) Noticef(format string, v ...any) {
	l.log.Debug("NATS: " + fmt.Sprintf(format, v...))
}

// Warnf implements server.Logger.
func (l *serverLog) Warnf(format string, v ...any) { l.log.Warn("NATS: " + fmt.Sprintf(format, v...)) }

// Errorf implements server.Logger.
func (l *serverLog) Errorf(format string, v ...any) { l.log.Warn("NATS: " + fmt.Sprintf(format, v...)) }

// Fatalf implements server.Logger. A server that cannot start is noticed by Embed; the relay goes on.
func (l *serverLog) Fatalf(format string, v ...any) {
	l.log.Error("NATS: " + fmt.Sprintf(format, v...))
}

// Debugf implements server.Logger.
func (l *serverLog) Debugf(string, ...any) {}

// Tracef implements server.Logger.
func (l *serverLog) Tracef(string, ...any) {}
