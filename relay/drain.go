package relay

import (
	"context"
	"time"

	"sluice/media"
	"sluice/moqt"
)

// Drain takes the relay out of service (draft §3.6): it accepts no more sessions, sends GOAWAY to all peers, with the URI of another relay if
// there is one, and waits until they have left. Sessions that are there after the timeout are closed with GOAWAY_TIMEOUT, or when ctx is
// done with NO_ERROR.
func (r *Relay) Drain(ctx context.Context, uri string, timeout time.Duration) {
	empty := make(chan struct{})
	r.mu.Lock()
	r.draining = true
	peers := make([]*peer, 0, len(r.peers))
	for p := range r.peers {
		peers = append(peers, p)
	}
	if len(peers) == 0 {
		close(empty)
	} else {
		r.drained = empty
	}
	r.mu.Unlock()
	for _, p := range peers {
		if p.session.Goaway(uri, timeout) != nil { // no session was established yet
			p.session.Close(moqt.SessionNoError, "the relay is going away")
		}
	}
	select {
	case <-empty:
	case <-ctx.Done():
		for _, p := range peers {
			p.session.Close(moqt.SessionNoError, "the relay is going away")
		}
		<-empty
	}
	r.tasks.Wait()
}

// Events returns what the media senders' configurations need to tell the relay of subscribers that are too far behind.
func (r *Relay) Events() media.Events { return events{} }

type events struct{ media.NoEvents }

// TooFarBehind implements media.Events (draft §8).
func (events) TooFarBehind(sub *media.Subscription, _ int64, _ time.Duration) {
	if d, ok := sub.Owner().(*downstream); ok {
		d.end(moqt.DoneTooFarBehind, moqt.ResetTooFarBehind)
	}
}
