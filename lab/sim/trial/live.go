package trial

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"sluice/clock"
	"sluice/internal/unlucky"
	"sluice/lab/sim"
	"sluice/moqt"
)

// Options say what else to do while a schedule is lived through.
type Options struct {
	Log    *slog.Logger // of the relays; required
	Record *Record      // gets packets and the secrets of TLS; default: nothing is kept
	Qlog   bool         // Record gets a qlog of each end of each connection, too
	// Random has TLS and QUIC take their random numbers from the seed. They are the whole process's, so it is not for
	// tests that run in parallel.
	Random bool
}

// setClock gives relays and their kernels one clock, whose times do not depend on when the process was started.
var setClock = sync.OnceFunc(func() { clock.SetOrigin(time.Unix(0, 0), clock.Time(time.Hour)) })

// Live lives through a schedule, in virtual time. The test fails if something is wrong.
func Live(t *testing.T, s *Schedule, o Options) {
	t.Helper()
	if o.Random {
		cryptotest.SetGlobalRandom(t, s.Seed)
	}
	setClock()
	defer unlucky.Begin(s.Seed)()
	synctest.Test(t, func(t *testing.T) {
		for range s.Order {
			rand.Uint64() // the order of goroutines depends on how many came before
		}
		l := &life{service: newService(t, s, o), published: make(map[moqt.Location]time.Time)}
		l.live()
	})
}

// life is a schedule that is being lived through.
type life struct {
	*service
	begun     moqt.Location               // the object that is being published, or comes next; guarded by service.mu
	published map[moqt.Location]time.Time // when each object was; guarded by service.mu
	viewers   []*viewer
	faults    []string       // of greed, excess and storms; guarded by service.mu
	joining   sync.WaitGroup // of viewers, and their pauses
}

// live does all of it, and judges.
func (l *life) live() {
	p := l.startAll()
	steps := l.steps()
	var publishing sync.WaitGroup
	publishing.Go(func() { l.publish(p) })
	begin, guests := time.Now(), newBroadcast(l)
	for _, s := range steps {
		time.Sleep(s.at - time.Since(begin))
		s.do()
	}
	publishing.Wait()
	l.joining.Wait()
	guests.all.Wait()
	faults := append(append(l.faults, l.verdict()...), guests.verdict()...)
	if len(faults) > 0 {
		l.noteRelays()
	}
	if faults = append(faults, l.leaks()...); len(faults) == 0 {
		return
	}
	l.t.Logf("relays subscribe at %v", l.Upstream)
	if l.Cluster != nil {
		l.t.Logf("relays are a cluster: %+v", *l.Cluster)
	}
	for _, line := range l.notes {
		l.t.Log(line)
	}
	for _, f := range faults {
		l.t.Error(f)
	}
}

// startAll starts relays, the publisher and the first viewers.
func (l *life) startAll() *publisher {
	for _, p := range l.Paths {
		l.connect(p.Relay, p.Upstream, func(link *sim.Link) { *link = p.Link })
	}
	for _, m := range l.Mishaps {
		switch m.What {
		case Upgrade:
			l.connect(m.Relay, m.Relay, func(link *sim.Link) { *link = l.Loopback })
		case Storm:
			l.foreign[m.Relay] = newForeign(l.service, m.Relay)
		}
	}
	if c := l.Cluster; c != nil {
		l.bus = newBus(l.Seed, len(c.Nodes), c.Messages)
	}
	for i, upstream := range l.Upstream {
		l.start(i+1, upstream...)
		if l.RTSP.isAt(i + 1) {
			l.process(i + 1).serveRTSP()
		}
	}
	time.Sleep(time.Second)
	p := l.publisher(1, l.Media.Publisher, &l.Media, nil)
	for i := range l.Schedule.Viewers {
		if v := &l.Schedule.Viewers[i]; v.Joins == 0 {
			l.view(v)
		}
	}
	return p
}

// follow has a viewer move whenever the relay asks it to.
func (l *life) follow(w *viewer) {
	for uri, asked := w.isAsked(); asked; uri, asked = w.isAsked() {
		if err := l.move(w, uri); err != nil {
			w.fault("a move: %v", err)
			return
		}
	}
}

// move has a viewer move to another session, as package sub does: when that has a subscription, and the viewer knows
// where it begins, the viewer leaves the old session, and fetches the objects that it lacks before.
func (l *life) move(w *viewer, uri string) error {
	w.using.lock()
	defer w.using.unlock()
	for relay := range l.last() {
		if uri == l.url(relay+1, "moqt") {
			w.relay = relay + 1
			l.connect(w.host, w.relay, func(link *sim.Link) { *link = w.spec.Link })
		}
	}
	l.note("viewer %d moves to relay %d", w.number, w.relay)
	old := w.client
	largest, err := w.rejoin(l.t.Context(), &l.Media)
	if err != nil {
		return err
	}
	m := moqt.Fetch{FetchType: moqt.FetchAbsoluteJoining}
	if largest == nil {
		m.FetchType, largest = moqt.FetchStandalone, w.predecessor()
		w.fetchUpTo(largest)
	}
	old.leave()
	if largest == nil {
		return nil
	}
	if lost := l.lacking(w, largest.Group+1); len(lost) > 0 {
		l.note("viewer %d has moved, and fetches objects from %v to %v", w.number, lost[0], largest)
		m.JoiningStart = lost[0].Group
		err = w.movedBy(w.fetch(l.t.Context(), m, *largest))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.left || mustMove(err) {
		return nil
	}
	return err
}

// lacking returns the objects before a group that a viewer should have got and has not. A small cache may not have what
// a viewer fetches.
func (l *life) lacking(w *viewer, end uint64) []moqt.Location {
	return slices.DeleteFunc(w.missing(w.first, end), func(at moqt.Location) bool {
		return !w.wants(at) || l.Media.mayLack(at) || l.Limits.Cache > 0 && w.isUnknown(at) ||
			excuses{l, w}.lacks(at)
	})
}

// view adds a viewer. Of those who join later, the oracle demands the groups that begin after the relay's answer.
func (l *life) view(v *Viewer) {
	relay := l.relayOf(v)
	l.note("viewer %d joins relay %d by %s, draft %d, %+v", v.Number, relay, v.Scheme, v.Version, v.Link)
	w := l.viewer(relay, v, &l.Media)
	l.mu.Lock()
	defer l.mu.Unlock()
	if v.Joins > 0 && (!w.late || len(l.Media.Restarts) > 0) {
		w.first = l.begun.Group + 1
	}
	l.viewers = append(l.viewers, w)
	go l.follow(w)
}

// find returns a viewer who has joined and not left, or nil.
func (l *life) find(number int) *viewer {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.viewers, func(w *viewer) bool { return w.number == number && !w.left })
	if i < 0 {
		return nil
	}
	return l.viewers[i]
}

// step is something to do at a time of the media.
type step struct {
	at time.Duration
	do func()
}

// steps returns what to do, in order.
func (l *life) steps() (steps []step) {
	for i := range l.Schedule.Viewers {
		if v := &l.Schedule.Viewers[i]; v.Joins > 0 {
			steps = append(steps, step{v.Joins, func() { l.joining.Go(func() { l.view(v) }) }})
		}
	}
	for _, m := range l.Mishaps {
		begin, end := l.mishap(m)
		steps = append(steps, step{m.At, begin})
		if end != nil {
			steps = append(steps, step{m.At + m.Lasts, end})
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return int(a.at - b.at) })
	return steps
}

// mishap returns what to do when a mishap begins, and when it ends.
func (l *life) mishap(m Mishap) (begin, end func()) {
	switch m.What {
	case Kill:
		return func() {
				l.note("relay %d is killed", m.Relay)
				l.kill(m.Relay)
			}, func() {
				l.note("relay %d starts again", m.Relay)
				l.start(m.Relay, l.Upstream[m.Relay-1]...)
			}
	case Cut:
		return func() {
			l.joining.Go(func() { // for no longer, whatever other mishaps wait for
				l.note("the link of relays %d and %d is cut", m.Upstream, m.Relay)
				l.connect(m.Relay, m.Upstream, func(link *sim.Link) { link.Down = true })
				time.Sleep(m.Lasts)
				l.note("the link of relays %d and %d is whole again", m.Upstream, m.Relay)
				l.connect(m.Relay, m.Upstream, func(link *sim.Link) { link.Down = false })
			})
		}, nil
	case Part:
		return func() {
				l.note("messages of node %d reach nobody", m.Relay)
				l.bus.cut(m.Relay)
			}, func() {
				l.note("messages of node %d reach others again", m.Relay)
				l.bus.heal(m.Relay)
			}
	case Rebind:
		return func() { l.relocate(m.Viewer, "another port", l.net.Rebind) }, nil
	case Readdress:
		return func() { l.relocate(m.Viewer, "another address", l.net.ChangeAddress) }, nil
	case Leave:
		return func() { l.leave(m.Viewer) }, nil
	case Stall:
		return func() { l.joining.Go(func() { l.stall(m.Viewer, m.Lasts) }) }, nil
	case Pause:
		return func() { l.joining.Go(func() { l.pause(m.Viewer, m.Lasts) }) }, nil
	case Drain:
		return func() {
			l.note("relay %d sends its clients to relay %d, and ends", m.Relay, m.Upstream)
			l.drain(m.Relay, l.url(m.Upstream, "moqt"))
		}, nil
	case Greed:
		return func() { l.joining.Go(func() { newAccount(l, m).takeTwice() }) }, nil
	case Excess:
		return func() { l.joining.Go(func() { newAccount(l, m).exceedTwice() }) }, nil
	case Storm:
		return func() { l.joining.Go(func() { l.foreign[m.Relay].storm(l, m) }) }, nil
	case Upgrade:
		return func() {
			l.note("another process wants to take over relay %d", m.Relay)
			l.joining.Go(func() { l.upgrade(m) })
		}, nil
	}
	l.t.Fatalf("no such mishap: %q", m.What)
	return nil, nil
}

// relocate has others see a viewer elsewhere.
func (l *life) relocate(number int, where string, to func(netip.Addr)) {
	if w := l.find(number); w != nil {
		l.note("viewer %d has %s", number, where)
		to(sim.Host(w.host))
	}
}

// leave has a viewer leave.
func (l *life) leave(number int) {
	if w := l.find(number); w != nil {
		l.note("viewer %d leaves", number)
		l.mu.Lock()
		w.left = true
		c := w.client
		l.mu.Unlock()
		c.leave()
	}
}

// pause has a viewer set Forward to 0, and to 1 after a time; if the time is 0, it does not wait for the answer in
// between. Objects may be missing that the viewer did not have at the pause, or that were published before the relay
// accepted Forward 1.
func (l *life) pause(number int, lasts time.Duration) {
	w := l.find(number)
	if w == nil {
		return
	}
	w.using.lock()
	defer w.using.unlock()
	l.mu.Lock()
	p := pause{first: l.begun}
	l.mu.Unlock()
	if lost := w.missing(w.first, p.first.Group+1); len(lost) > 0 && lost[0].Less(p.first) {
		p.first = lost[0]
	}
	l.note("viewer %d wants no objects", number)
	ctx, cancel := context.WithCancel(l.t.Context())
	defer cancel()
	if lasts == 0 {
		cancel() // so that the answer is not awaited
	}
	err := w.forward(ctx, false)
	l.checkCredit(w)
	if time.Sleep(lasts); err == nil || errors.Is(err, context.Canceled) {
		l.note("viewer %d wants objects again", number)
		err = w.forward(l.t.Context(), true)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p.last = l.begun
	w.pauses = append(w.pauses, p)
	if err != nil && !w.left {
		w.fault("a pause: %v", err)
	}
}

// stall has a viewer read nothing for a time.
func (l *life) stall(number int, lasts time.Duration) {
	w := l.find(number)
	if w == nil {
		return
	}
	l.note("viewer %d does not read", number)
	resume := w.stall()
	time.Sleep(lasts)
	l.checkCredit(w)
	l.note("viewer %d reads again", number)
	resume()
}

// checkCredit checks that the relay of a viewer does not keep streams that have ended while they waited for credit.
func (l *life) checkCredit(w *viewer) {
	p := l.process(l.relayOf(w.spec))
	if p == nil {
		return
	}
	g := p.gauges()
	if kept, wait := g["sluice_media_queued_streams"], g["sluice_media_waiting_streams"]; kept > wait {
		w.fault("%v streams are queued for credit, but only %v wait", kept, wait)
	}
}

// arrives is how long what a publisher has sent may take to arrive at its relay.
const arrives = 2 * time.Second

// publish publishes all groups. Between two of them, another publisher may take over.
func (l *life) publish(p *publisher) {
	for group := range l.Media.Groups {
		l.begin(moqt.Location{Group: group})
		switch {
		case slices.Contains(l.Media.Restarts, group):
			p.arrive()
			l.note("the publisher is killed, and starts again with group 0, which is group %d of all", group)
			l.net.Kill(sim.Host(p.host))
			p = l.publisher(1, l.Media.Publisher, &l.Media, nil)
		case slices.Contains(l.Media.Successions, group):
			l.note("another publisher takes the place of the one before, before group %d", group)
			p.end()
			p = l.publisher(1, l.Media.Successor, &l.Media, nil)
		}
		if t, ok := l.Media.Takeovers[group]; ok && t.At < l.Media.Objects {
			p = takeOver(l, p, group, t)
		} else {
			p.group(group, l.begin)
		}
	}
	p.finish()
	l.settle()
}

// quiet is for how long nobody gets an object when all has come.
const quiet = 20 * time.Second

// settle waits for all that is on its way, and longer while viewers get objects: a path that loses packets in bursts
// carries less than its rate.
func (l *life) settle() {
	time.Sleep(l.rest())
	for most := time.Now().Add(10 * l.rest()); l.isFlowing() && time.Now().Before(most); {
		time.Sleep(quiet)
	}
}

// isFlowing reports whether a viewer has got an object a short time ago.
func (l *life) isFlowing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.viewers, func(w *viewer) bool { return time.Since(w.oracle.latest()) < quiet })
}

// begin notes which object is published next.
func (l *life) begin(at moqt.Location) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun, l.published[at] = at, time.Now()
}

// verdict returns the faults.
func (l *life) verdict() (faults []string) {
	for _, w := range l.viewers {
		for _, f := range l.faultsOf(w) {
			faults = append(faults, fmt.Sprintf("viewer %d: %s", w.number, f))
		}
	}
	return slices.Concat(faults, l.tooEarly(), l.omitted.unexpected())
}

// faultsOf returns the faults of what a viewer has got, when no move is under way.
func (l *life) faultsOf(w *viewer) []string {
	w.using.lock()
	defer w.using.unlock()
	faults := w.allFaults(excuses{l, w}.repeats)
	if w.left || w.wasTooSlow() {
		return faults
	}
	if late := l.tooLate(w); len(late) > 0 {
		faults = append(faults, fmt.Sprintf("objects came too late: %v", late))
	}
	return append(faults, w.incomplete(l.lacking(w, l.Media.Groups))...)
}
