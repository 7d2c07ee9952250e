package trial

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay"
)

const (
	// excessive is how many times as many bytes as the media takes somebody sends, and each of hogs is sent.
	excessive = 6
	// hogs is how many viewers share an account.
	hogs = 5
	// burst is for how long a rate may be exceeded after a pause.
	burst = 5 * time.Second
	// noticed is how long a relay may take to end subscriptions that exceed a quota: meanwhile it sends several times
	// as much as it allows.
	noticed = 4 * time.Second
)

// exceed has somebody exceed the quotas of bytes and of requests, and may give a token to those who want all of a
// relay. A hog alone does not exceed what all of them together may get.
func exceed(g *generator, rng *rand.Rand) {
	n, rate := &g.Limits, g.Limits.Upload/5
	n.Sessions, n.Subscriptions, n.Requests = hogs+1, hogs+2, hogs+3 // with a token, the publisher is one of them
	n.Tracks = max(n.Tracks, 2)                                      // the first one stays in the cache
	n.Upload, n.Download, n.RequestRate = 2*rate, 8*rate, 10
	for i := range g.Mishaps {
		g.Mishaps[i].Token = g.Mishaps[i].What == Greed && rng.IntN(2) == 0
	}
	m := Mishap{At: time.Duration(rng.Int64N(int64(g.length()))), What: Excess, Relay: 1, Token: rng.IntN(2) == 0}
	m.Lasts = time.Duration(3+rng.IntN(6)) * time.Second
	// So that groups of others stay, and those that a relay has not got when its session is lost: logs and indexes take
	// up to twice as much as the objects.
	n.Cache += 2 * int64(rate/8*excessive) * int64(m.Lasts/time.Second)
	// A relay whose way to the publisher changes lacks what the publisher has not sent yet (docs/simulation.md).
	relay := g.relayOf(&g.Viewers[rng.IntN(len(g.Viewers))])
	moves := func(m Mishap) bool {
		return slices.Contains([]string{Drain, Kill, Cut, Part}, m.What) || m.What == Upgrade && m.Relay != relay
	}
	if !slices.ContainsFunc(g.Mishaps, moves) {
		m.Relay = relay
	}
	g.Mishaps = append(g.Mishaps, m)
}

// exceedTwice exceeds quotas, and again when they are as good as new.
func (a *account) exceedTwice() {
	for try := range 2 {
		m := a.mishap
		x := &overuse{account: a, media: a.Media, quota: a.Limits.quota(m.Token), at: a.process(m.Relay)}
		x.media.name = fmt.Sprintf("excess %v, try %d", m.At, try)
		x.live()
		time.Sleep(2 * burst)
	}
}

// overuse is a track whose publisher sends more than its quota allows: all of it comes, if late. One of its viewers has
// an account of its own, and lacks nothing. The hogs have another one together: the newest lose their subscriptions.
type overuse struct {
	*account
	media Media
	quota relay.Quota
	at    *process // where the viewers are
	begun time.Time
	alone *hog
	hogs  []*hog // the oldest first
}

// live has the publisher and its viewers come, publish and leave.
func (x *overuse) live() {
	m := &x.media
	m.Timeouts, m.Successions, m.Restarts, m.Takeovers = Timeouts{}, nil, nil, nil
	m.Pause, m.Objects = m.Pause/excessive, max(m.Objects, 20)
	m.Groups = max(1, uint64(x.mishap.Lasts/m.Pause)/m.Objects)
	p := x.publisher(1, x.client, m, nil)
	x.omitted.allow(addressOf(p.host))
	x.alone = x.view(x.host(x.mishap.Relay, greedy), greedy)
	for i := range hogs {
		x.hogs = append(x.hogs, x.view(x.hosts[i%len(x.hosts)], x.client))
	}
	x.begun = time.Now()
	defer time.AfterFunc(x.longest(), func() { // else a publisher that the relay does not read waits for good
		for _, o := range p.current {
			o.leave()
		}
	}).Stop()
	for group := range m.Groups {
		p.group(group, func(moqt.Location) {})
	}
	p.end()
	x.await()
	faults := append(x.verdict(), x.ask()...)
	for _, h := range x.all() {
		h.viewer.leave()
	}
	for _, o := range p.current {
		o.leave()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, f := range faults {
		x.faults = append(x.faults, m.name+": "+f)
	}
}

// view has somebody view the track.
func (x *overuse) view(host int, c Client) *hog {
	w := &viewer{
		service: x.service, spec: &Viewer{Client: c, Relay: x.mishap.Relay}, relay: x.mishap.Relay, host: host,
	}
	_, err := w.join(x.t.Context(), &x.media, nil)
	x.check(err)
	h := &hog{excuses: excuses{x.life, w}}
	context.AfterFunc(w.sub.Context(), func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		h.ended = time.Now()
	})
	return h
}

// longest returns how long all that is sent may take to come: far longer than by the quota, as a socket that loses a
// fifth of the packets slows the publisher down, too.
func (x *overuse) longest() time.Duration {
	sum := 0
	for group := range x.media.Groups {
		for object := range x.media.Objects {
			sum += x.media.size(moqt.Location{Group: group, Object: object})
		}
	}
	return 10*time.Duration(float64(sum)*8/float64(x.quota.Upload)*float64(time.Second)) + 2*burst
}

// await waits until all has come that has to, or long enough.
func (x *overuse) await() {
	lacks := func(h *hog) bool { return len(h.faults()) > 0 } // streams may end after the last object
	for time.Since(x.begun) < x.longest() && slices.ContainsFunc(x.all(), lacks) {
		time.Sleep(time.Second)
	}
}

// all returns all viewers.
func (x *overuse) all() []*hog { return append(slices.Clone(x.hogs), x.alone) }

// verdict returns the faults of what viewers have got, and when.
func (x *overuse) verdict() (faults []string) {
	for i, h := range x.all() {
		for _, f := range h.faults() {
			faults = append(faults, fmt.Sprintf("viewer %d: %s", i+1, f))
		}
	}
	if x.alone.isCut() {
		faults = append(faults, "the viewer with an account of its own has lost the subscription")
	}
	faults = append(faults, x.tooMuch("upload", x.quota.Upload, x.alone)...)
	if x.process(x.mishap.Relay) != x.at { // each process has accounts of its own
		return faults
	}
	return slices.Concat(faults, x.tooMuch("download", x.quota.Download, x.hogs...), x.cutTooEarly())
}

// tooMuch returns the fault if viewers together have got more bytes than a quota of bits per second allows.
func (x *overuse) tooMuch(what string, quota int, viewers ...*hog) []string {
	var lasted time.Duration
	for _, h := range viewers {
		lasted = max(lasted, h.viewer.latest().Sub(x.begun))
	}
	got, most := received(viewers, time.Now()), volume(quota, burst+noticed+lasted)
	if got > most {
		return []string{fmt.Sprintf("%s: %d bytes came in %v: at most %d", what, got, lasted, most)}
	}
	return nil
}

// received returns how many bytes of objects had come to viewers at a time.
func received(viewers []*hog, at time.Time) (sum int) {
	for _, h := range viewers {
		h.viewer.oracle.mu.Lock()
		for object, came := range h.viewer.got {
			if !came.After(at) {
				sum += h.viewer.media.size(object)
			}
		}
		h.viewer.oracle.mu.Unlock()
	}
	return sum
}

// volume returns how many bytes are sent in a time, at a rate of bits per second.
func volume(rate int, in time.Duration) int { return int(float64(rate) / 8 * in.Seconds()) }

// cutTooEarly returns the fault if hogs have lost subscriptions before they exceeded the quota, or an older one before
// a newer one.
func (x *overuse) cutTooEarly() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	first := time.Now()
	for i, h := range x.hogs {
		switch {
		case h.isCut() && h.ended.Before(first):
			first = h.ended
		case !h.isCut() && i > 0 && x.hogs[i-1].isCut():
			return []string{fmt.Sprintf("hog %d has lost the subscription, and a newer one has not", i)}
		}
	}
	got, least := received(x.hogs, first), volume(x.quota.Download, burst-time.Second)
	if x.hogs[hogs-1].isCut() && got < least {
		return []string{fmt.Sprintf("hogs lost subscriptions after %d bytes: at least %d", got, least)}
	}
	return nil
}

// ask makes requests until a quota refuses one, and returns the fault if that are too few or too many.
func (x *overuse) ask() []string {
	begun, granted, rate := time.Now(), 0, x.quota.RequestRate
	for granted < 20*rate && x.hogs[0].viewer.mayAsk(x.t.Context(), new(Media).track()) {
		granted++
	}
	least := rate * int(burst/time.Second)
	most := least + 1 + int(float64(rate)*time.Since(begun).Seconds())
	if granted < least || granted > most {
		return []string{fmt.Sprintf("%d requests were granted: want %d to %d", granted, least, most)}
	}
	return nil
}

// hog is a viewer who may lose the subscription.
type hog struct {
	excuses
	ended time.Time // when it did; guarded by service.mu
}

// isCut reports whether the relay has said that the subscription ends because of a quota.
func (h *hog) isCut() bool {
	done, ok := errors.AsType[*session.DoneError](context.Cause(h.viewer.sub.Context()))
	return ok && done.Status == moqt.DoneExcessiveLoad
}

// faults returns the faults of what the viewer has got.
func (h *hog) faults() []string {
	faults := h.viewer.allFaults(h.repeats)
	if h.isCut() {
		return faults
	}
	lost := slices.DeleteFunc(h.viewer.missing(0, h.viewer.media.Groups), h.lacks)
	return append(faults, h.viewer.incomplete(lost)...)
}
