package client

import (
	"context"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// Link is a session with a relay. Its Session is valid when Serve is called.
type Link struct {
	*session.Session
	URL string // of the relay

	since       time.Time // when it was established
	established chan struct{}
	moved       chan moqt.Goaway
	served      chan error
	stop        context.CancelFunc // of Serve
	ended       chan struct{}
}

// Name returns the URL of the relay as logs and errors show it.
func (l *Link) Name() string { return transport.WithoutQuery(l.URL) }

// Established tells Run that the session is in use. It now replaces the session before it, if any.
func (l *Link) Established() {
	select {
	case l.established <- struct{}{}:
	default:
	}
}

// retire ends a session that another one has replaced: when Serve has returned, or after the timeout.
func (l *Link) retire(timeout time.Duration) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case err := <-l.served:
		l.served <- err
	case <-timer.C:
	}
	l.close()
}

// close ends the session and waits until Serve has returned.
func (l *Link) close() {
	l.Close(moqt.SessionNoError, "")
	<-l.ended
	if l.stop != nil {
		l.stop()
		err := <-l.served
		l.served <- err
	}
}

// hasEnded reports whether the session has ended and Serve has returned.
func (l *Link) hasEnded() bool {
	select {
	case <-l.ended:
		return len(l.served) > 0
	default:
		return false
	}
}
