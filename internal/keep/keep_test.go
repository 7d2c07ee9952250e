package keep

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

var (
	errDown  = errors.New("down")
	errLost  = errors.New("lost")
	errFatal = errors.New("fatal")
)

// fake is a session of a test.
type fake struct {
	end     chan error // ends it
	goaway  chan moqt.Goaway
	unused  chan struct{}   // closed when nothing needs it after GOAWAY
	retires time.Duration   // timeout of Retire
	over    context.Context // done when it has ended
	finish  context.CancelFunc
}

// world has the relays of a test, and a call of Run.
type world struct {
	cfg      Config
	down     map[string]error // by URL
	lasts    time.Duration    // a session; 0: until the test ends it
	sessions []*fake
	log      []string // what has happened
	dialed   []time.Time
	result   chan error
	stop     context.CancelFunc
}

// run calls Run with two relays, own and named. change may change the world before.
func run(t *testing.T, f func(*world), change func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{down: make(map[string]error), result: make(chan error, 1)}
		w.cfg = Config{
			URL: "own", Dial: w.dial, Note: w.note,
			Backoff: Backoff{First: 100 * time.Millisecond, Last: 10 * time.Second},
			Final:   func(err error) bool { return err == nil || errors.Is(err, errFatal) },
			Follow:  func(named string) string { return named },
		}
		change(w)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		w.stop = stop
		go func() { w.result <- Run(ctx, w.cfg) }()
		synctest.Wait()
		f(w)
		stop()
		synctest.Wait()
		for _, s := range w.sessions {
			require.Error(t, s.over.Err())
		}
	})
}

func (w *world) dial(_ context.Context, url string) (*Session, error) {
	w.log = append(w.log, "dial "+url)
	w.dialed = append(w.dialed, time.Now())
	if err := w.down[url]; err != nil {
		return nil, err
	}
	s := &fake{
		end: make(chan error, 1), goaway: make(chan moqt.Goaway, 1),
		unused: make(chan struct{}),
	}
	s.over, s.finish = context.WithCancel(context.Background())
	w.sessions = append(w.sessions, s)
	if w.lasts > 0 {
		time.AfterFunc(w.lasts, func() { s.end <- errLost })
	}
	ready := make(chan struct{})
	close(ready)
	return &Session{Run: s.run, Ready: ready, Goaway: s.goaway, Retire: s.retire}, nil
}

func (s *fake) run(ctx context.Context) error {
	defer s.finish()
	select {
	case err := <-s.end:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *fake) retire(timeout time.Duration) {
	s.retires = timeout
	select {
	case <-s.unused:
	case <-s.over.Done():
	}
}

func (w *world) note(e Event, url string, err error) {
	line := [...]string{"connected ", "failed ", "lost ", "moving "}[e] + url
	if err != nil {
		line += ": " + err.Error()
	}
	w.log = append(w.log, line)
}

// take returns what has happened since the last call, some time later.
func (w *world) take(after time.Duration) string {
	time.Sleep(after)
	synctest.Wait()
	defer func() { w.log, w.dialed = nil, nil }()
	return strings.Join(w.log, ", ")
}

// dials returns what has happened since the last call as the time from each attempt to the next one.
func (w *world) dials(after time.Duration) (pauses []time.Duration) {
	time.Sleep(after)
	synctest.Wait()
	for i := 1; i < len(w.dialed); i++ {
		pauses = append(pauses, w.dialed[i].Sub(w.dialed[i-1]))
	}
	w.log, w.dialed = nil, nil
	return pauses
}

// lose ends the latest session.
func (w *world) lose(err error) { w.sessions[len(w.sessions)-1].end <- err }

// goaway has the relay of the latest session go away.
func (w *world) goaway(uri string, ms uint64) (old *fake) {
	old = w.sessions[len(w.sessions)-1]
	old.goaway <- moqt.Goaway{NewSessionURI: uri, Timeout: ms}
	return old
}

func unchanged(*world) {}

// Attempts become rarer, and come at once after a session that was stable.
func TestBackoff(t *testing.T) {
	run(t, func(w *world) {
		pauses := w.dials(10 * time.Minute)
		mean := 100 * time.Millisecond
		for _, p := range pauses {
			require.GreaterOrEqual(t, p, mean/2)
			require.LessOrEqual(t, p, mean*3/2)
			mean = min(2*mean, 10*time.Second)
		}
		require.Greater(t, len(pauses), 40)

		w.down = nil
		require.Equal(t, "dial own, connected own", w.take(time.Minute))
		w.lose(errLost)
		require.Equal(t, "lost own: lost, dial own, connected own", w.take(0), "it was stable")
		for range 5 {
			w.lose(errLost)
			require.Equal(t, "lost own: lost", w.take(0), "it was not")
			require.Equal(t, "dial own, connected own", w.take(4*time.Second))
		}
	}, func(w *world) { w.down["own"] = errDown })
}

// Time without a session counts until one is stable.
func TestGiveUp(t *testing.T) {
	for _, tt := range []struct {
		giveUp, lasts time.Duration
		least, most   int // sessions in an hour
		over          bool
	}{
		{-1, time.Minute, 1, 1, true},
		{5 * time.Second, 4 * time.Second, 4, 8, true},
		{5 * time.Second, 6 * time.Second, 600, 601, false},
		{0, 4 * time.Second, 200, 400, false},
	} {
		run(t, func(w *world) {
			time.Sleep(time.Hour)
			require.GreaterOrEqual(t, len(w.sessions), tt.least)
			require.LessOrEqual(t, len(w.sessions), tt.most)
			require.Equal(t, tt.over, len(w.result) > 0)
		}, func(w *world) { w.lasts, w.cfg.Backoff.GiveUp = tt.lasts, tt.giveUp })
	}
}

// TestFinal has errors that end Run.
func TestFinal(t *testing.T) {
	for _, err := range []error{nil, errFatal} {
		run(t, func(w *world) {
			w.lose(err)
			require.Equal(t, err, <-w.result)
			require.Equal(t, "dial own, connected own", w.take(0))
		}, unchanged)
	}
	run(t, func(w *world) {
		require.Equal(t, errFatal, <-w.result)
		require.Equal(t, "dial own", w.take(0))
	}, func(w *world) { w.down["own"] = errFatal })
	run(t, func(w *world) {
		w.stop()
		require.Equal(t, context.Canceled, <-w.result)
	}, func(w *world) { w.down["own"] = errDown })
}

// TestEndedAtOnce has a session that ends before it is established.
func TestEndedAtOnce(t *testing.T) {
	run(t, func(w *world) { require.Equal(t, ErrEndedAtOnce, <-w.result) }, func(w *world) {
		w.cfg.Backoff.GiveUp = -1
		w.cfg.Dial = func(context.Context, string) (*Session, error) {
			return &Session{Ready: make(chan struct{}), Run: func(context.Context) error { return nil }}, nil
		}
	})
}

// After GOAWAY the old session is in use until it has retired.
func TestMove(t *testing.T) {
	for ms, timeout := range map[uint64]time.Duration{0: moveTime, 3000: 3 * time.Second, 60_000: moveTime} {
		run(t, func(w *world) {
			w.take(time.Minute)
			old := w.goaway("named", ms)
			require.Equal(t, "moving named, dial named, connected named", w.take(time.Second))
			require.Equal(t, timeout, old.retires)
			require.NoError(t, old.over.Err(), "something needs it")
			close(old.unused)
			w.take(10 * time.Second)
			require.Error(t, old.over.Err())
			w.lose(errLost)
			require.Equal(t, "lost named: lost, dial named, connected named", w.take(0))

			old = w.goaway("", ms)
			require.Equal(t, "moving named", w.take(0), "it has just begun")
			require.Equal(t, "dial named, connected named", w.take(time.Second))
			w.lose(errLost)
			require.Equal(t, "lost named: lost, moving own: lost", w.take(0))
			require.NoError(t, old.over.Err(), "it is still needed")
		}, unchanged)
	}
}

// A session that ends because of a GOAWAY has not failed, whatever its error: a request may have come too late.
func TestEndedByGoaway(t *testing.T) {
	for range 20 { // both are there at once, and either may be seen first
		run(t, func(w *world) {
			w.goaway("named", 0)
			w.lose(errFatal)
			require.Equal(t, "dial own, connected own, moving named, dial named, connected named", w.take(time.Second))
		}, unchanged)
	}
}

// A relay that GOAWAY names and that cannot be used is given up for the configured one.
func TestNamed(t *testing.T) {
	const back = ", dial own, connected own"
	for _, tt := range []struct {
		err       error
		named     time.Duration // how long it is tried
		up        time.Duration // when it can be used
		log, ends string
	}{
		{errDown, 0, time.Hour, "moving named, dial named, failed named: down, moving own: down" + back, ""},
		{errFatal, time.Minute, time.Hour, "moving named, dial named, moving own: fatal" + back, ""},
		{errDown, time.Minute, time.Hour, "", ", failed named: down, moving own: down" + back},
		{errDown, time.Minute, 30 * time.Second, "", ", failed named: down, dial named, connected named"},
	} {
		run(t, func(w *world) {
			w.take(time.Minute)
			w.down["named"] = tt.err
			old := w.goaway("named", 0)
			time.AfterFunc(tt.up, func() { delete(w.down, "named") })
			time.Sleep(10 * time.Second)
			require.NoError(t, old.over.Err(), "it goes on meanwhile")
			if log := w.take(2 * time.Minute); tt.log != "" {
				require.Equal(t, tt.log, log)
			} else {
				require.True(t, strings.HasSuffix(log, tt.ends), log)
			}
		}, func(w *world) { w.cfg.Backoff.GiveUp = tt.named })
	}
	run(t, func(w *world) {
		w.take(time.Minute)
		w.goaway("named", 0)
		require.Equal(t, "moving own"+back, w.take(0))
	}, func(w *world) { w.cfg.Follow = func(string) string { return "own" } })
}

// TestMoveFails has a session whose relay goes away, and no other relay.
func TestMoveFails(t *testing.T) {
	run(t, func(w *world) {
		time.Sleep(time.Minute)
		w.down = map[string]error{"own": errDown, "named": errDown}
		w.goaway("named", 0)
		require.Equal(t, errDown, <-w.result)
	}, func(w *world) { w.cfg.Backoff.GiveUp = time.Second })
}
