package trial

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/lab/sim"
	"sluice/moqt"
	"sluice/relay"
)

// Limits are what relays allow: little more than a client of a schedule needs. 0: the default.
type Limits struct {
	Sessions, Tracks, Subscriptions, Requests int   // of an address
	Cache                                     int64 // bytes of all tracks
	Upload, Download                          int   `json:",omitempty"` // bits a second of an address
}

// restrict has relays allow little, and somebody wants as much as there is.
func (g *generator) restrict(rng *rand.Rand) {
	g.Limits = Limits{
		Sessions: 4 + rng.IntN(3), Tracks: 1 + rng.IntN(3), Subscriptions: 4 + rng.IntN(4), Requests: 4 + rng.IntN(6),
		Cache: 400_000 << rng.IntN(3), // some groups: those that are read stay
	}
	for range 1 + rng.IntN(3) {
		m := Mishap{At: time.Duration(rng.Int64N(int64(g.length()))), What: Greed, Relay: 1}
		if rng.IntN(2) == 0 {
			m.Relay = g.relayOf(&g.Viewers[rng.IntN(len(g.Viewers))])
		}
		g.Mishaps = append(g.Mishaps, m)
	}
}

// ration limits the bytes of an address to a few times what the media takes.
func ration(g *generator) {
	rate := float64(g.Media.mostBytes(moqt.Location{})/2+100) / g.Media.Pause.Seconds()
	g.Limits.Upload, g.Limits.Download = int(5*8*rate), int(5*8*rate)
}

// apply limits what a relay allows. Other relays have no quotas.
func (n Limits) apply(c *relay.Config) {
	c.PerAddress = relay.Quota{
		Sessions: n.Sessions, Tracks: n.Tracks, Subscriptions: n.Subscriptions, Requests: n.Requests,
		Upload: n.Upload, Download: n.Download,
	}
	c.Cache.Size = n.Cache
	if prefix, err := sim.Host(0).Prefix(26); err == nil {
		c.Exempt = append(c.Exempt, prefix)
	}
}

// greedy is somebody who opens all sessions and subscriptions that a relay allows, and wants more.
var greedy = Client{Scheme: "moqt", Version: moqt.Draft22, Link: sim.Link{Delay: 5 * time.Millisecond}, Stays: true}

// greed has somebody take all that a relay allows, for a moment, and again when the relay has forgotten that: then all
// of it has to be there.
func (l *life) greed(number int) {
	host, want := l.host(number, greedy), taken{
		l.Limits.Sessions, min(l.Limits.Tracks, l.Limits.Subscriptions, l.Limits.Requests),
	}
	for try := range 2 {
		begun := l.process(number)
		if begun == nil {
			return // it was killed, or has ended
		}
		got := l.takeAll(number, host, try, want)
		l.note("somebody wanted all of relay %d, and had %+v", number, got)
		l.mu.Lock()
		if l.relays[number] == begun && got != want {
			l.faults = append(l.faults, fmt.Sprintf("relay %d gave somebody %+v: want %+v", number, got, want))
		}
		l.mu.Unlock()
		time.Sleep(linger)
	}
}

// answered is when a relay has answered a request though its kernel is late, and given up a handshake without progress.
const answered = 5 * time.Second

// taken is what somebody had at a time.
type taken struct{ sessions, subscriptions int }

// takeAll wants more of a relay than there is, and gives all back. A copy of a client's first packet that comes more
// than 3 PTO after the handshake begins another connection. It counts until its handshake times out: somebody who lacks
// sessions tries again then.
func (l *life) takeAll(number, host, try int, most taken) (got taken) {
	var open []*client
	for tries := 3; tries > 0 && len(open) < most.sessions; tries-- {
		for range most.sessions + 2 - len(open) {
			if c, err := l.join(host, number, greedy); err == nil {
				open = append(open, c)
				defer c.leave()
			}
		}
		time.Sleep(answered)
		open = slices.DeleteFunc(open, func(c *client) bool { return c.Context().Err() != nil })
	}
	if got.sessions = len(open); len(open) > 0 {
		got.subscriptions = l.subscribeMore(open[0], fmt.Sprintf("%d, try %d", host, try), most.subscriptions+2)
	}
	return got
}

// subscribeMore subscribes to tracks that nobody publishes, and returns how many of the subscriptions wait. The tracks
// are named for who asks and for the try: another process of the relay may still have tracks of an earlier try.
func (l *life) subscribeMore(c *client, who string, n int) int {
	ctx, cancel := context.WithTimeout(l.t.Context(), answered)
	defer cancel()
	var refused atomic.Int64
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			m := moqt.Subscribe{Track: track, Parameters: moqt.Parameters{RendezvousTimeout: new(uint64(20_000))}}
			m.Track.Name = fmt.Sprintf("%d of %s", i, who)
			sub, err := c.Subscribe(ctx, m, &oracle{})
			if err == nil {
				_, err = sub.Wait(ctx)
			}
			if e, ok := errors.AsType[*moqt.RequestError](err); ok && e.Code.Effective() == moqt.RequestExcessiveLoad {
				refused.Add(1)
			}
		})
	}
	all.Wait()
	return n - int(refused.Load())
}
