package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sluice/fastpath"
	"sluice/internal/keep"
	"sluice/internal/unlucky"
	"sluice/media"
	"sluice/moqt"
	"sluice/relay"
	"sluice/transport"
)

// keeper keeps a session with an upstream relay.
type keeper struct {
	server    *Server
	relay     *relay.UpstreamRelay
	url       string
	mayMove   func(from, to string) bool // whether a GOAWAY may name a URL; nil: it does not count
	announces bool                       // the relay is told of publishers of this server
	transport transport.ClientConfig
	log       *slog.Logger
	kind      transport.Kind // of the latest connection
	payload   atomic.Int64   // max_udp_payload_size of the relay, as far as is known and useful

	mu      sync.Mutex
	failure string // of the last attempt; empty if a session was established
	ready   bool   // there is a session
}

// UpstreamStatus describes an upstream relay.
type UpstreamStatus struct {
	URL       string `json:"url"`             // without the query
	Connected bool   `json:"connected"`       // SessionStatus.Upstream tells the session
	Error     string `json:"error,omitempty"` // why there is no session
}

// run keeps the session until the context is done.
func (k *keeper) run(ctx context.Context) {
	_ = keep.Run(ctx, keep.Config{ // nobody asks for the last error
		URL: k.url, Dial: k.dial, Follow: k.follow, Note: k.note,
		Backoff: keep.Backoff{First: 100 * time.Millisecond, Last: 10 * time.Second},
	})
}

// dial opens a session.
func (k *keeper) dial(ctx context.Context, url string) (*keep.Session, error) {
	if unlucky.Happens() {
		return nil, keep.ErrEndedAtOnce
	}
	conn, err := k.server.listener.Dial(ctx, url, k.transport)
	if err != nil {
		return nil, err
	}
	k.kind = conn.Kind()
	if sender, ok := conn.Hooks().(media.Hooks); ok { // before anybody can know that there is a session
		k.payload.Store(int64(min(sender.PeerMaxUDPPayloadSize(), fastpath.MaxUDPPayloadSize)))
	}
	s, err := k.relay.NewSession(conn)
	if err != nil {
		return nil, errors.Join(err, conn.CloseWithError(uint64(moqt.SessionInternalError), ""))
	}
	k.server.tasks.Go(func() { watchSilence(conn, k.server.fastPath.await) })
	return &keep.Session{Run: s.Run, Ready: s.Ready(), Goaway: s.Goaway(), Retire: s.Retire}, nil
}

// follow returns the URL to connect to when a GOAWAY has named one. A host that the operator does not know gets no
// token.
func (k *keeper) follow(named string) string {
	switch {
	case k.mayMove == nil:
		return k.url
	case k.mayMove(k.url, named):
		return named
	}
	k.log.Warn("the upstream relay names another host, which --upstream-goaway-host does not allow; connecting again",
		"named", transport.WithoutQuery(named))
	return k.url
}

// note notes and logs what happens.
func (k *keeper) note(e keep.Event, url string, err error) {
	switch {
	case e == keep.Connected:
		k.set(true, "")
		k.log.Info("connected to the upstream relay", "over", k.kind)
	case e == keep.Failed:
		k.relay.SetDown()
		if k.set(false, err.Error()) { // once for each reason, and not at each attempt
			k.log.Warn("no session with the upstream relay; trying again and again", "err", err)
		}
	case e == keep.Lost:
		k.set(false, "")
		k.log.Warn("the session with the upstream relay has ended; connecting again", "err", err)
	case err == nil:
		k.log.Info("the upstream relay is going away; moving", "to", transport.WithoutQuery(url))
	}
}

// set notes the state, and reports whether the reason of a failure is a new one.
func (k *keeper) set(ready bool, failure string) (changed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	changed = failure != k.failure
	k.ready, k.failure = ready, failure
	return changed
}

func (k *keeper) status() UpstreamStatus {
	k.mu.Lock()
	defer k.mu.Unlock()
	return UpstreamStatus{URL: k.relay.Name(), Connected: k.ready, Error: k.failure}
}
