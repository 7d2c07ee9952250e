package relay

import (
	"context"
	"time"

	"sluice/moqt"
)

// Drain takes the relay out of service (draft §3.6): it sends GOAWAY to all peers, with the URI of another relay if
// there is one, and waits until they have left. Peers that come meanwhile are sent away as well. Sessions that last
// longer than the timeout are closed with GOAWAY_TIMEOUT; when ctx is done, the rest are closed with NO_ERROR.
func (r *Relay) Drain(ctx context.Context, uri string, timeout time.Duration) {
	r.DrainSome(ctx, uri, timeout, func(string) bool { return true })
}

// DrainSome is Drain that sends GOAWAY only to those peers for whose MOQT_IMPLEMENTATION asks returns true. The others
// go on as before, until they leave or ctx is done.
func (r *Relay) DrainSome(ctx context.Context, uri string, timeout time.Duration, asks func(string) bool) {
	empty := r.sessions.drain(&farewell{uri, timeout, asks})
	asking, stop := context.WithCancel(context.Background())
	defer stop()
	go r.sessions.askAgain(asking)
	select {
	case <-empty:
	case <-ctx.Done():
		r.sessions.closeAll("the relay is going away")
		<-empty
	}
	r.end()
	r.sessions.closeNeighbors()
	r.tasks.Wait()
}

// setupGrace is how long a farewell waits for the SETUP of a peer. One that has connected by several ways at once, and
// chosen another, sends none, and the message that it has closed this one may be lost.
const setupGrace = time.Second

// farewell is how a relay that goes away sees its peers off.
type farewell struct {
	uri     string
	timeout time.Duration
	asks    func(implementation string) bool
}

// say asks a peer to leave, when it has a session. A newcomer has the time for that which its session gives it.
func (f *farewell) say(p *peer, newcomer bool) {
	if !newcomer {
		defer time.AfterFunc(setupGrace, func() {
			if _, ok := p.implementation(); !ok {
				p.session.Close(moqt.SessionNoError, "the relay is going away")
			}
		}).Stop()
	}
	select {
	case <-p.session.Ready():
	case <-p.session.Context().Done():
		return
	}
	if name, _ := p.implementation(); f.asks(name) {
		_ = p.session.Goaway(f.uri, f.timeout) // fails only if the session has ended
	}
}

// askInterval is how often a relay that drains asks each of its peers whether it is still there.
const askInterval = time.Second

// askAgain asks silent peers for a sign of life, again and again. One that has closed its session, and whose last
// packet got lost, answers that it has: without that, the relay would wait for it until the session times out. A
// subscriber whose acknowledgements the fast path takes is asked as well.
func (s *sessions) askAgain(ctx context.Context) {
	tick := time.NewTicker(askInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, p := range s.direct() {
				if now.Sub(p.conn.LastReceived()) >= askInterval {
					p.conn.Ping()
				}
			}
		}
	}
}
