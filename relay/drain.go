package relay

import (
	"context"
	"time"

	"sluice/moqt"
	"sluice/relay/internal/hub"
)

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
				p.Session.Close(moqt.SessionNoError, "the relay is going away")
			}
		}).Stop()
	}
	select {
	case <-p.Session.Ready():
	case <-p.Session.Context().Done():
		return
	}
	if name, _ := p.implementation(); f.asks(name) {
		_ = p.Session.Goaway(f.uri, f.timeout) // fails only if the session has ended
	}
}

// askInterval is how often a relay that drains asks each of its peers whether it is still there.
const askInterval = time.Second

// lingerTime is how long a process is kept for the other ones when its last peer has left, and when the last FETCH has
// ended. The FETCH of a client may be lost, and come again.
const lingerTime = 5 * time.Second

// linger waits while other processes of a relay may fetch from this one. A client that moves to another process leaves
// this one, and then asks the other process for the objects that it lacks.
func linger(ctx context.Context, r *Relay) {
	look := time.NewTicker(askInterval)
	defer look.Stop()
	fetches := r.directory.Report().Fetches
	for used := time.Now(); time.Since(used) < lingerTime; {
		if len(r.sessions.at(hub.Beside)) == 0 || r.directory.Count() == 0 {
			return
		}
		if fetches() > 0 {
			used = time.Now()
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}
