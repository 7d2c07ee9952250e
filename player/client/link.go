package client

import (
	"context"
	"errors"
	"fmt"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// Link is a session with a relay. Its Session is valid when Serve is called.
type Link struct {
	*session.Session
	URL string // of the relay

	endpoint Endpoint
	serving  serving
	goaway   chan moqt.Goaway
	before   []serving // of earlier sessions that had not ended: a Link here would keep all sessions before it, too
}

// serving is the context of a call of Serve.
type serving struct {
	context.Context
	stop context.CancelFunc
}

// Name returns the URL of the relay as logs and errors show it.
func (l *Link) Name() string { return transport.WithoutQuery(l.URL) }

// Established tells Run that the session is in use. It now replaces those before it.
func (l *Link) Established() {
	for _, earlier := range l.before {
		earlier.stop()
	}
}

// run runs and serves the session. It returns what Serve returns, or why the session was lost.
func (l *Link) run(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = l.Run(ctx) // the session's context has its error
	}()
	defer func() {
		l.Close(moqt.SessionNoError, "")
		<-ended
	}()
	select {
	case <-l.Ready():
		err := l.endpoint.Serve(l.serving)
		_, refused := errors.AsType[*moqt.RequestError](err)
		if err == nil || refused || l.Context().Err() == nil {
			return err
		}
	case <-ended:
	}
	return &ConnectError{l.URL, fmt.Errorf("%s: %w", l.Name(), context.Cause(l.Context()))}
}
