package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// connectPause is the time between two attempts to connect.
const connectPause = 50 * time.Millisecond

// connection is a session with the relay.
type connection struct {
	*session.Session
	wait sync.WaitGroup
}

func (c *connection) close() {
	c.Close(moqt.SessionNoError, "")
	c.wait.Wait()
}

// connect opens a session. It tries again while the relay starts.
func (g *generator) connect(ctx context.Context, h session.Handler) (c *connection, err error) {
	err = g.retry(ctx, func(ctx context.Context) error {
		c, err = g.tryConnect(ctx, h)
		return err
	})
	return c, err
}

// retry calls dial until it succeeds.
func (g *generator) retry(ctx context.Context, dial func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, SetUpTime,
		fmt.Errorf("no session with %s within %v", g.URL, SetUpTime))
	defer cancel()
	for {
		err := dial(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(connectPause):
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

func (g *generator) tryConnect(ctx context.Context, h session.Handler) (*connection, error) {
	url, err := transport.ParseURL(g.URL)
	if err != nil {
		return nil, err
	}
	// The relay may still start: a handshake that met a closed port would wait for its next packet.
	conn, err := transport.Dial(ctx, g.URL, transport.ClientConfig{
		Protocols: moqt.ALPNs(), Insecure: true, ProbeAfter: -1,
		Limits: transport.Limits{HandshakeTimeout: 5 * time.Second},
	})
	if err != nil {
		return nil, err
	}
	s, err := session.New(conn, session.Config{
		Role: session.Client, Handler: h, Authority: url.Authority, Path: cmp.Or(url.Path, "/"),
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, errors.Join(err, conn.CloseWithError(0, ""))
	}
	c := &connection{Session: s}
	c.wait.Go(func() { s.Run(context.WithoutCancel(ctx)) })
	if _, err := s.Peer(ctx); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// subscribe subscribes to a track.
func (c *connection) subscribe(
	ctx context.Context, name moqt.FullTrackName, from moqt.FilterType, p moqt.Parameters, r session.Receiver,
) error {
	p.Filter, p.RendezvousTimeout = &moqt.Filter{Type: from}, new(uint64(SetUpTime.Milliseconds()))
	s, err := c.Subscribe(ctx, moqt.Subscribe{Track: name, Parameters: p}, r)
	if err == nil {
		if _, err = s.Wait(ctx); err == nil {
			return nil
		}
		s.Cancel(moqt.ResetCancelled)
	}
	return fmt.Errorf("subscribe to %s: %w", name.Name, err)
}
