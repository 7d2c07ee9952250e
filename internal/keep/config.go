package keep

import (
	"context"
	"time"

	"sluice/moqt"
)

// Config is the configuration of [Run], which calls the functions one at a time. Final is optional.
type Config struct {
	URL     string
	Dial    func(ctx context.Context, url string) (*Session, error) // opens a session
	Backoff Backoff
	Grace   time.Duration // for a session to end by itself when the context is done
	// Final reports whether nothing is to follow an attempt or a session with this error. It is nil if a session has
	// ended without one.
	Final  func(error) bool
	Follow func(named string) (url string)      // returns where to go when GOAWAY names a URL
	Note   func(e Event, url string, err error) // is told what happens at a URL
}

// Backoff says how often to dial, and for how long.
type Backoff struct {
	// After a failure the next attempt waits for First, and each time for twice as long, up to Last. The times vary at
	// random by half: the clients of a relay that was started again should not all connect at the same moment.
	First, Last time.Duration
	// GiveUp is how long there may be no session, in all since one that was stable, before Run gives up. 0: it does
	// not. Negative: it does not try again. A URL that GOAWAY has named is given up, too, with 0 after one failure.
	GiveUp time.Duration
}

// Session is a session that Dial has opened. Without Goaway, it needs neither Retire nor Follow.
type Session struct {
	Run    func(context.Context) error // runs it, and ends it when the context is done
	Ready  <-chan struct{}             // closed when it is established
	Goaway <-chan moqt.Goaway          // gets the relay's GOAWAY
	// Retire waits until the session has ended, or has to end because another one has replaced it. It then has the
	// timeout to end by itself.
	Retire func(timeout time.Duration)
}

// Event is what happens to a session.
type Event int

const (
	Connected Event = iota // there is one
	Failed                 // an attempt has failed; unless Run returns, another one follows
	Lost                   // it has ended; unless Run returns, an attempt follows
	Moving                 // the URL is the next one: of GOAWAY or, with an error, because that one cannot be used
)
