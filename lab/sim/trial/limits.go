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
	RequestRate                               int   `json:",omitempty"` // of an address
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
	c.PerAddress, c.PerToken, c.Authorizer = n.quota(false), n.quota(true), subjects{}
	c.Cache.Size = n.Cache
	if prefix, err := sim.Host(0).Prefix(26); err == nil {
		c.Exempt = append(c.Exempt, prefix)
	}
}

// quota returns what an address may use. A token may be used for as much, but for fewer bytes and requests a second.
func (n Limits) quota(token bool) relay.Quota {
	q := relay.Quota{
		Sessions: n.Sessions, Tracks: n.Tracks, Subscriptions: n.Subscriptions, Requests: n.Requests,
		RequestRate: n.RequestRate, Upload: n.Upload, Download: n.Download,
	}
	if token {
		q.RequestRate, q.Upload, q.Download = q.RequestRate/2, q.Upload*3/4, q.Download*3/4
	}
	return q
}

// subjects allows everything. It tells tokens apart.
type subjects struct{}

// Authorize implements [relay.Authorizer].
func (subjects) Authorize(_ context.Context, r relay.AuthRequest) (g relay.Grant, err error) {
	if len(r.Tokens) > 0 {
		g.Subject = string(r.Tokens[0].Value)
	}
	return g, nil
}

// greedy is somebody who opens all sessions and subscriptions that a relay allows, and wants more.
var greedy = Client{Scheme: "moqt", Version: moqt.Draft22, Link: sim.Link{Delay: 5 * time.Millisecond}, Stays: true}

// account is somebody who may exceed quotas: an address, or a token that two addresses use.
type account struct {
	*life
	mishap Mishap
	client Client
	hosts  []int
}

func newAccount(l *life, m Mishap) *account {
	a := &account{life: l, mishap: m, client: greedy, hosts: []int{l.host(m.Relay, greedy)}}
	if m.Token {
		a.client.Token = fmt.Sprintf("%s %v", m.What, m.At)
		a.hosts = append(a.hosts, l.host(m.Relay, greedy))
		l.omitted.allow(a.client.Token)
	}
	for _, h := range a.hosts {
		l.omitted.allow(addressOf(h))
	}
	return a
}

// addressOf returns the name of the account of a host.
func addressOf(host int) string { return sim.Host(host).String() + "/32" }

// takeTwice takes all that a relay allows, for a moment, and again when the relay has forgotten that: then all of it
// has to be there.
func (a *account) takeTwice() {
	l, number := a.life, a.mishap.Relay
	want := taken{l.Limits.Sessions, min(l.Limits.Tracks, l.Limits.Subscriptions, l.Limits.Requests)}
	for try := range 2 {
		begun := l.process(number)
		if begun == nil {
			return // it was killed, or has ended
		}
		got := a.takeAll(try, want)
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
func (a *account) takeAll(try int, most taken) (got taken) {
	var open []*client
	for tries := 3; tries > 0 && len(open) < most.sessions; tries-- {
		for i := range most.sessions + 2 - len(open) {
			if c, err := a.join(a.hosts[i%len(a.hosts)], a.mishap.Relay, a.client); err == nil {
				open = append(open, c)
				defer c.leave()
			}
		}
		time.Sleep(answered)
		open = slices.DeleteFunc(open, func(c *client) bool { return c.Context().Err() != nil })
	}
	if a.mishap.Token { // a session counts for a token from its first request on
		track := (&Media{name: fmt.Sprintf("of %d", a.hosts[0])}).track() // another one would count for who asks first
		open = slices.DeleteFunc(open, func(c *client) bool { return !c.mayAsk(a.t.Context(), track) })
		time.Sleep(answered) // the track counts, too
	}
	if got.sessions = len(open); len(open) > 0 {
		got.subscriptions = a.subscribeMore(open[:min(len(a.hosts), len(open))], try, most.subscriptions+2)
	}
	return got
}

// mayAsk makes a request for a track, and reports whether no quota refused it.
func (c *client) mayAsk(ctx context.Context, track moqt.FullTrackName) bool {
	_, err := c.TrackStatus(ctx, moqt.TrackStatus{Track: track})
	return !isExcessive(err)
}

// isExcessive reports whether a quota has refused a request.
func isExcessive(err error) bool {
	e, ok := errors.AsType[*moqt.RequestError](err)
	return ok && e.Code.Effective() == moqt.RequestExcessiveLoad
}

// subscribeMore subscribes to tracks that nobody publishes, and returns how many of the subscriptions wait. The tracks
// are named for who asks and for the try: another process of the relay may still have tracks of an earlier try.
func (a *account) subscribeMore(all []*client, try, n int) int {
	ctx, cancel := context.WithTimeout(a.t.Context(), answered)
	defer cancel()
	var refused atomic.Int64
	var asking sync.WaitGroup
	for i := range n {
		asking.Go(func() {
			media := Media{name: fmt.Sprintf("%d of %d, try %d", i, a.hosts[0], try)}
			m := moqt.Subscribe{
				Track: media.track(), Parameters: moqt.Parameters{RendezvousTimeout: new(uint64(20_000))},
			}
			sub, err := all[i%len(all)].Subscribe(ctx, m, &oracle{})
			if err == nil {
				_, err = sub.Wait(ctx)
			}
			if isExcessive(err) {
				refused.Add(1)
			}
		})
	}
	asking.Wait()
	return n - int(refused.Load())
}
