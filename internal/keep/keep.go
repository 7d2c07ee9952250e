package keep

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"sluice/moqt"
)

const (
	// moveTime is how long a session is kept that another one replaces, unless GOAWAY has a shorter timeout.
	moveTime = 10 * time.Second
	// stable is how long a session lasts that counts as a success. From the second one on, a shorter one counts like a
	// failure.
	stable = 5 * time.Second
	// forever is longer than a process lives.
	forever = 100 * 365 * 24 * time.Hour
)

// ErrEndedAtOnce is the error of a session that has ended without an error before it was established.
var ErrEndedAtOnce = errors.New("the relay has ended the session at once; it may be going away")

// Run keeps a session until the context is done, Final says so, or Backoff gives up. It returns when all sessions have
// ended, with the error of the last session or attempt.
func Run(ctx context.Context, cfg Config) error {
	k := &keeper{cfg: cfg}
	k.aim(cfg.URL)
	defer k.retiring.Wait()
	over, end := context.WithCancel(context.Background())
	k.over = over
	defer end()
	for {
		if over, err := k.use(ctx); over {
			return err
		}
	}
}

// keeper is a call of Run.
type keeper struct {
	cfg      Config
	url      string
	wait     time.Duration // before the next attempt, on average
	deadline time.Time     // of attempts at url
	retiring sync.WaitGroup
	over     context.Context // done when retiring sessions have to end
}

// running is a session that runs.
type running struct {
	*Session
	began time.Time
	end   context.CancelFunc
	ended chan struct{}
	err   error // valid once it has ended
}

// finish waits until the session has ended by itself, ends it after a time, and returns its error.
func (s *running) finish(within time.Duration) error {
	defer time.AfterFunc(within, s.end).Stop()
	<-s.ended
	return s.err
}

func (k *keeper) note(e Event, err error) { k.cfg.Note(e, k.url, err) }

// aim makes a URL the next one to dial.
func (k *keeper) aim(url string) {
	patience := k.cfg.Backoff.GiveUp
	if url == k.cfg.URL {
		patience = cmp.Or(patience, forever)
	}
	k.url, k.deadline = url, time.Now().Add(patience)
}

// use makes one attempt, waits until its session has ended or has to be replaced, and pauses. It reports whether
// nothing is to follow, and why.
func (k *keeper) use(ctx context.Context) (over bool, err error) {
	s, err := k.dial(ctx)
	if err != nil {
		k.wait = max(k.wait, k.cfg.Backoff.First)
		return k.again(ctx, Failed, err)
	}
	k.note(Connected, nil)
	var g moqt.Goaway
	var asked bool
	select {
	case g, asked = <-s.Goaway:
	case <-s.ended: // perhaps for that reason
		select {
		case g, asked = <-s.Goaway:
		default:
		}
	case <-ctx.Done():
		return true, s.finish(k.cfg.Grace)
	}
	k.leave(s)
	if !asked {
		return k.again(ctx, Lost, s.err)
	}
	k.move(s, g)
	return sleep(ctx, k.pause())
}

// dial opens a session and waits until it is established.
func (k *keeper) dial(ctx context.Context) (*running, error) {
	opened, err := k.cfg.Dial(ctx, k.url)
	if err != nil {
		return nil, err
	}
	s := &running{Session: opened, ended: make(chan struct{})}
	running, end := context.WithCancel(context.Background())
	s.end = end
	go func() {
		defer close(s.ended)
		s.err = s.Run(running)
	}()
	select {
	case <-s.Ready:
	case <-s.ended:
		select {
		case <-s.Ready: // it had begun
		default:
			return nil, cmp.Or(s.err, ErrEndedAtOnce)
		}
	case <-ctx.Done():
		return nil, cmp.Or(s.finish(0), context.Cause(ctx))
	}
	s.began = time.Now()
	return s, nil
}

// leave notes how long a session has lasted. After a stable one, and after the first of the others, the next attempt
// comes at once.
func (k *keeper) leave(s *running) {
	if lasted := time.Since(s.began); lasted < stable {
		k.deadline = k.deadline.Add(lasted)
		return
	}
	k.wait = 0
	k.aim(k.url)
}

// again pauses before another attempt, unless nothing is to follow.
func (k *keeper) again(ctx context.Context, e Event, err error) (over bool, _ error) {
	futile := ctx.Err() != nil || k.cfg.Final != nil && k.cfg.Final(err)
	own := k.url == k.cfg.URL
	if futile && (own || e == Lost) {
		return true, err
	}
	if !futile {
		k.note(e, err)
	}
	pause := k.pause()
	if futile || time.Now().Add(pause).After(k.deadline) {
		if own {
			return true, err
		}
		k.aim(k.cfg.URL) // the URL of a GOAWAY may have been wrong, or have changed
		k.note(Moving, err)
	}
	return sleep(ctx, pause)
}

// pause returns how long to wait before the next attempt.
func (k *keeper) pause() time.Duration {
	pause := k.wait/2 + rand.N(k.wait+1)
	k.wait = min(max(2*k.wait, k.cfg.Backoff.First), k.cfg.Backoff.Last)
	return pause
}

func sleep(ctx context.Context, d time.Duration) (over bool, err error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false, nil
	case <-ctx.Done():
		return true, context.Cause(ctx)
	}
}

// move follows a GOAWAY (draft §3.6). The old session is in use until it has retired.
func (k *keeper) move(old *running, g moqt.Goaway) {
	if g.NewSessionURI != "" {
		k.aim(k.cfg.Follow(g.NewSessionURI))
	}
	k.note(Moving, nil)
	timeout := moveTime
	if g.Timeout > 0 {
		timeout = min(timeout, moqt.Milliseconds(g.Timeout))
	}
	k.retiring.Go(func() {
		defer context.AfterFunc(k.over, old.end)()
		old.Retire(timeout)
		_ = old.finish(timeout) // nobody asks for its error
	})
}
