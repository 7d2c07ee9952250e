package relay

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/hub"
	"sluice/track"
	"sluice/transport/transporttest"
)

// upstreamTo makes an upstream relay of a bench.
func (b *bench) upstreamTo(url string) *UpstreamRelay {
	u, err := b.relay.neighbors.NewUpstreamRelay(UpstreamRelayConfig{URL: url})
	require.NoError(b.t, err)
	return u
}

// pipedUpstream is a session with an upstream relay.
type pipedUpstream struct {
	*Neighbor
	here, there *transporttest.Conn
}

// dial connects a bench to an upstream relay, which is another bench.
func (b *bench) dial(u *UpstreamRelay, to *bench) *pipedUpstream {
	here, there := transporttest.Pipe(transporttest.PipeConfig{})
	s, err := u.NewSession(here)
	require.NoError(b.t, err)
	go s.Run(b.ctx)
	go to.relay.Serve(to.ctx, there)
	<-s.Ready()
	synctest.Wait()
	return &pipedUpstream{s, here, there}
}

// dialForeign connects a bench to an upstream relay that the test plays.
func (b *bench) dialForeign(u *UpstreamRelay, options ...func(*session.Config)) (*pipedUpstream, *client) {
	return b.dialForwarded(u, nil, options...)
}

// dialForwarded does that, and the fast path serves the connection.
func (b *bench) dialForwarded(
	u *UpstreamRelay, by claim.ForwarderConn, options ...func(*session.Config),
) (*pipedUpstream, *client) {
	here, there := transporttest.Pipe(transporttest.PipeConfig{})
	s, err := u.NewSession(here)
	require.NoError(b.t, err)
	s.peer.Forwarder = by
	c := &client{b: b, conn: there, handler: &clientHandler{}}
	cfg := session.Config{
		Role: session.Server, Implementation: "foreign", Handler: c.handler, Logger: slog.New(slog.DiscardHandler),
	}
	for _, o := range options {
		o(&cfg)
	}
	c.Session, err = session.New(there, cfg)
	require.NoError(b.t, err)
	go s.Run(b.ctx)
	go c.Run(b.ctx)
	<-s.Ready()
	synctest.Wait()
	return &pipedUpstream{s, here, there}, c
}

// cut ends the session as a crash of the upstream relay would.
func (p *pipedUpstream) cut() {
	p.there.Vanish()
	p.peer.Session.Close(moqt.SessionInternalError, "")
	p.there.CloseWithError(uint64(moqt.SessionInternalError), "")
	synctest.Wait()
}

// follow makes other benches the upstream relays of one, for all namespaces.
func (b *bench) follow(to ...*bench) (us []*UpstreamRelay, sessions []*pipedUpstream) {
	for i := range to {
		us = append(us, b.upstreamTo(fmt.Sprintf("moqt://relay%d", i)))
	}
	b.relay.neighbors.SetRoutes(RouteTable{{Upstreams: us}})
	for i, o := range to {
		sessions = append(sessions, b.dial(us[i], o))
	}
	return us, sessions
}

// chain makes a bench for each relay. Each relay has the relay before it as its upstream relay.
func onChain(t *testing.T, n int, f func([]*bench)) {
	onBenches(t, Config{}, n, func(bs []*bench) {
		for i := 1; i < n; i++ {
			bs[i].follow(bs[i-1])
		}
		f(bs)
	})
}

// atUpstream counts the subscriptions at upstream relays.
func (b *bench) atUpstream() (n int) {
	synctest.Wait()
	for p, c := range b.relay.directory.Report().OfPeers() {
		if p.From == hub.Elsewhere {
			n += c.Published
		}
	}
	return n
}

var publishing = map[string]func(*bench) *source{
	"PUBLISH": func(b *bench) *source { return b.next(nil) },
	"PUBLISH_NAMESPACE": func(b *bench) *source {
		src := b.origin(&source{})
		synctest.Wait()
		return src
	},
}

// FETCH and TRACK_STATUS wait for the first session, too, and no longer than that or FILL_TIMEOUT may take, although
// another relay has refused.
func TestUpstreamConnectsForFetches(t *testing.T) {
	onBenches(t, Config{FillTimeout: 3 * time.Second}, 3, func(bs []*bench) {
		bs[0].next(nil).group(1, 2)
		us := []*UpstreamRelay{bs[2].upstreamTo("moqt://first"), bs[2].upstreamTo("moqt://second")}
		bs[2].relay.neighbors.SetRoutes(RouteTable{{Upstreams: us}})
		bs[2].dial(us[1], bs[1])
		fetch := standalone(at(1, 0), at(1, 1))
		short := fetch
		short.Parameters.FillTimeout = new(uint64(2000))
		requests := map[string]struct {
			ask   func(*client) error
			limit time.Duration
		}{
			"FETCH":        {func(c *client) error { return c.fetch(fetch).err }, 3 * time.Second},
			"FETCH, short": {func(c *client) error { return c.fetch(short).err }, 2 * time.Second},
			"TRACK_STATUS": {func(c *client) error {
				_, err := c.TrackStatus(bs[2].ctx, moqt.TrackStatus{Track: video})
				return err
			}, 3 * time.Second},
		}
		for name, r := range requests {
			start := time.Now()
			bs[2].refused(r.ask(bs[2].connect()), moqt.RequestDoesNotExist)
			require.Equal(t, r.limit, time.Since(start), name)
		}
		answers := make(chan error, len(requests))
		begin := time.Now()
		for _, r := range requests {
			c := bs[2].connect()
			go func() { answers <- r.ask(c) }()
		}
		time.Sleep(time.Second)
		bs[2].dial(us[0], bs[0])
		for range requests {
			require.NoError(t, <-answers)
		}
		require.Equal(t, time.Second, time.Since(begin))

		other := moqt.TrackStatus{Track: moqt.FullTrackName{Namespace: video.Namespace, Name: "other"}}
		go func() {
			_, err := bs[2].connect().TrackStatus(bs[2].ctx, other)
			answers <- err
		}()
		bs[2].refused(<-answers, moqt.RequestDoesNotExist)
		require.Equal(t, time.Second, time.Since(begin), "both are connected")
	})
}

// The session is lost in the middle of an object. A FETCH that has sent its beginning waits for the rest.
func TestFetchWhenUpstreamIsLost(t *testing.T) {
	onBenches(t, Config{}, 2, func(bs []*bench) {
		us, sessions := bs[1].follow(bs[0])
		src := bs[0].next(nil)
		bs[1].connect().mustSubscribe(moqt.Parameters{})
		g := src.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).half(0)
		c := bs[1].connect()
		f, err := c.Fetch(bs[1].ctx, standalone(at(1, 0), at(1, 1)))
		require.NoError(t, err)
		synctest.Wait()
		sessions[0].cut()
		time.Sleep(time.Second)
		bs[1].dial(us[0], bs[0])
		g.stream.Write([]byte(" and"))
		require.Equal(t, "1.0=half and, fin", c.collect(f, moqt.Ascending).objects)
	})
}

// The session is lost before the first object has come.
func TestUpstreamIsLostBeforeTheTrackBegins(t *testing.T) {
	onBenches(t, Config{}, 2, func(bs []*bench) {
		us, sessions := bs[1].follow(bs[0])
		src := bs[0].next(nil)
		k, _ := bs[1].connect().mustSubscribe(moqt.Parameters{})
		sessions[0].cut()
		src.group(0, 2)
		src.group(1, 1)
		time.Sleep(time.Second)
		bs[1].dial(us[0], bs[0])
		// If SUBSCRIBE_OK comes before SETUP, group 1 is fetched, too, and so it is known that group 0 is over.
		require.Equal(t, "0.0, 0.1, 1 fin, 1.0", strings.TrimPrefix(k.sorted(), "0 fin, "))
	})
}

// The session is lost, and groups come and go before the next one. Subscribers get them, too, each object once; and go
// on with the current group if the upstream relay does not have the others.
func TestUpstreamIsLostForSomeGroups(t *testing.T) {
	short := propertiesOf(t, moqt.KeyValuePair{Type: moqt.PropertyObjectDeliveryTimeout, Value: 500})
	for name, tt := range map[string]struct {
		cfg        Config
		properties moqt.Properties
		want       []string // of the groups 1 to 4
	}{
		"the upstream relay has them": {Config{}, nil, []string{
			"1.0", "1/7.1", "1.2", "1 fin", "1/7.3", "1/7 fin", "2.0", "2.1", "2 fin", "datagram 2.2", "3.0", "4.0",
		}},
		"the upstream relay keeps nothing": {Config{Cache: track.CacheConfig{Duration: -1}}, nil, []string{
			"1.0", "1/7.1", "4.0",
		}},
		"they are too late": {Config{}, short, []string{"1.0", "1/7.1", "4.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			onBenches(t, tt.cfg, 2, func(bs []*bench) {
				us, sessions := bs[1].follow(bs[0])
				src := &source{properties: tt.properties}
				_, err := src.offer(bs[0].connect(), moqt.Parameters{})
				require.NoError(t, err)
				k, s := bs[1].connect().mustSubscribe(moqt.Parameters{})
				src.group(0, 1)
				base := src.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(0)
				layer := src.open(moqt.SubgroupHeader{
					GroupID: 1, SubgroupIDMode: moqt.SubgroupIDPresent, SubgroupID: 7, FirstObject: true,
				}).object(1)
				got := k.take()
				sessions[0].cut()
				base.object(2).fin()
				layer.object(3).fin()
				src.group(2, 2)
				require.NoError(t, src.publication().SendDatagram(moqt.ObjectDatagram{
					Location: at(2, 2), Payload: []byte("object 2"),
				}))
				src.group(3, 1)
				src.open(moqt.SubgroupHeader{GroupID: 4, FirstObject: true}).object(0)
				time.Sleep(time.Second)
				bs[1].dial(us[0], bs[0])
				got += ", " + k.take()
				var clean []string
				for _, o := range strings.Split(got, ", ") {
					ended := o == "3 fin" // what is fetched does not say whether its last group has ended
					if !strings.Contains(o, "reset") && !strings.HasPrefix(o, "0") && !ended {
						clean = append(clean, o)
					}
				}
				require.ElementsMatch(t, tt.want, clean)
				require.NoError(t, s.Context().Err())
			})
		})
	}
}

// The session is lost, and the next one is with a relay of another make, which sends only what comes after the Largest
// Object. The current group is fetched as far as that.
func TestUpstreamBeginsWithinAGroup(t *testing.T) {
	for name, tt := range map[string]struct {
		largest moqt.Location
		asked   moqt.Range
		missed  string
	}{
		"a later group":  {at(3, 1), moqt.Range{Start: at(1, 0), End: at(3, 1)}, "2.0, 2.1; 3.0, 3.1"},
		"the same group": {at(1, 3), moqt.Range{Start: at(1, 0), End: at(1, 3)}, "1.2, 1.3"},
		"nothing new":    {at(1, 1), moqt.Range{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, Config{}, func(b *bench) {
				u := b.upstreamTo("moqt://other")
				b.relay.neighbors.SetRoutes(RouteTable{{Upstreams: []*UpstreamRelay{u}}})
				first, other := b.dialForeign(u)
				src := other.serve(&source{})
				k, s := b.connect().mustSubscribe(moqt.Parameters{})
				src.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(0).object(1)
				require.Equal(t, "1.0, 1.1", k.take())
				first.cut()
				k.take()
				time.Sleep(time.Second)

				a := &archive{size: 4, largest: tt.largest, flat: true, skip: func(l moqt.Location) bool {
					return l.Group == 2 && l.Object > 1
				}}
				_, other = b.dialForeign(u, func(cfg *session.Config) { cfg.Handler.(*clientHandler).fetch = a.serve })
				src = other.serve(&source{largest: &tt.largest})
				time.Sleep(10 * time.Second)
				src.open(moqt.SubgroupHeader{GroupID: tt.largest.Group}).object(tt.largest.Object + 1).fin()
				src.group(9, 1)
				got := k.take()
				for _, want := range strings.Split(tt.missed, "; ") {
					require.Contains(t, got, want)
				}
				require.Contains(t, got, fmt.Sprintf("%d.%d, %[1]d fin", tt.largest.Group, tt.largest.Object+1))
				require.Equal(t, 1, strings.Count(got, fmt.Sprintf("%d.%d,", tt.largest.Group, tt.largest.Object+1)))
				require.NotContains(t, got, "1.1,", "once")
				require.Contains(t, got, "9.0, 9 fin")
				if tt.missed == "" {
					require.Empty(t, a.requests)
				} else {
					require.Equal(t, []moqt.Range{tt.asked}, a.requests)
				}
				require.NoError(t, s.Context().Err())
			})
		})
	}
}

// watchForeign has a peer subscribe to a track of an upstream relay that is not Sluice. It returns that relay, the
// session with it, the track there, and what the peer gets.
func (b *bench) watchForeign() (u *UpstreamRelay, s *pipedUpstream, src *source, k *sink) {
	u = b.upstreamTo("moqt://other")
	b.relay.neighbors.SetRoutes(RouteTable{{Upstreams: []*UpstreamRelay{u}}})
	s, other := b.dialForeign(u)
	src = other.serve(&source{})
	k, _ = b.connect().mustSubscribe(moqt.Parameters{})
	return u, s, src, k
}

// Missed objects take longer than a FETCH waits for a publisher, as each object comes some seconds behind the other.
// Meanwhile the publisher ends the track, or is gone. Subscribers get them before they are told.
func TestRefillOutlivesItsSubscription(t *testing.T) {
	for _, code := range []moqt.PublishDoneCode{moqt.DoneTrackEnded, moqt.DoneInternalError} {
		t.Run(code.String(), func(t *testing.T) {
			onBench(t, Config{}, func(b *bench) {
				u, first, src, k := b.watchForeign()
				src.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(0)
				first.cut()
				a := &archive{size: 2, largest: at(4, 0), flat: true, pause: 2 * time.Second}
				_, other := b.dialForeign(u, func(cfg *session.Config) { cfg.Handler.(*clientHandler).fetch = a.serve })
				src = other.serve(&source{largest: &a.largest})
				time.Sleep(time.Second)
				require.NoError(t, src.publication().Done(code, ""))
				time.Sleep(time.Minute)
				require.Subset(t, strings.Split(k.take(), ", "), []string{"1.1", "2.0", "2.1", "3.0", "3.1", "4.0"})
			})
		})
	}
}

// The upstream relay goes away while what was missed is asked for, and refuses that. It is fetched in the next session.
func TestRefillMeetsGoaway(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		u, first, src, k := b.watchForeign()
		src.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(0)
		first.cut()
		a := &archive{size: 2, largest: at(3, 0), flat: true}
		var leaving *client
		_, leaving = b.dialForeign(u, func(cfg *session.Config) {
			cfg.Handler.(*clientHandler).fetch = func(f *session.IncomingFetch) {
				require.NoError(t, leaving.Goaway("", 0))
				time.Sleep(time.Second)
				_ = f.Reject(&moqt.RequestError{Code: moqt.RequestGoingAway})
			}
		})
		leaving.serve(&source{largest: &a.largest})
		time.Sleep(5 * time.Second)
		_, other := b.dialForeign(u, func(cfg *session.Config) { cfg.Handler.(*clientHandler).fetch = a.serve })
		other.serve(&source{largest: &a.largest})
		require.Subset(t, strings.Split(k.take(), ", "), []string{"1.1", "2.0", "2.1"})
	})
}

// The session is lost before it has brought what was missed. It is fetched in the next session, although nothing but
// the first FETCH says that the group lacks objects: it has ended, and is older than what may have been on its way.
func TestRefillIsLost(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		u, first, src, k := b.watchForeign()
		for group := range uint64(3) {
			src.open(moqt.SubgroupHeader{GroupID: group, FirstObject: true}).object(0).fin()
		}
		first.cut()
		a := &archive{size: 4, largest: at(3, 0), skip: func(l moqt.Location) bool { return l.Object%3 > 0 }}
		var asked []moqt.Range
		dial := func(serve func(*session.IncomingFetch)) *pipedUpstream {
			s, other := b.dialForeign(u, func(cfg *session.Config) { cfg.Handler.(*clientHandler).fetch = serve })
			other.serve(&source{largest: &a.largest})
			return s
		}
		second := dial(func(f *session.IncomingFetch) {
			asked = append(asked, f.Range)
			<-f.Context().Done()
		})
		time.Sleep(5 * time.Second)
		second.cut()
		dial(a.serve)
		time.Sleep(time.Second)
		require.Contains(t, strings.Split(k.take(), ", "), "1/1.3")
		require.Equal(t, asked, a.requests)
	})
}

// The session is lost before it has brought what was missed, and then the publisher is restarted. What its former life
// has left is not asked of the new one.
func TestRefillIsLostBeforeARestart(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		u, first, src, _ := b.watchForeign()
		var asked []moqt.Location
		dial := func(largest uint64) (*pipedUpstream, *source) {
			s, other := b.dialForeign(u, func(cfg *session.Config) {
				cfg.Handler.(*clientHandler).fetch = func(f *session.IncomingFetch) {
					asked = append(asked, f.Range.Start)
					<-f.Context().Done()
				}
			})
			src := other.serve(&source{largest: new(at(largest, 0))})
			time.Sleep(time.Second)
			return s, src
		}
		src.group(5, 1)
		src.group(6, 1)
		first.cut()
		lost, _ := dial(8)
		lost.cut()
		second, restarted := dial(1)
		for group := uint64(2); group < 10; group++ {
			restarted.group(group, 1)
		}
		time.Sleep(6 * time.Second)
		second.cut()
		dial(10)
		synctest.Wait()
		require.Equal(t, []moqt.Location{at(5, 0), at(9, 0)}, asked)
	})
}

// While another upstream relay answers what was missed, the one that is preferred comes back. The other one goes on
// until it has answered.
func TestRefillIsNeeded(t *testing.T) {
	onBench(t, Config{Linger: time.Second}, func(b *bench) {
		us := []*UpstreamRelay{b.upstreamTo("moqt://preferred"), b.upstreamTo("moqt://other")}
		b.relay.neighbors.SetRoutes(RouteTable{{Upstreams: us}})
		first, preferred := b.dialForeign(us[0])
		src := preferred.serve(&source{})
		k, _ := b.connect().mustSubscribe(moqt.Parameters{})
		src.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(0)
		require.Equal(t, "1.0", k.take())
		first.cut()
		k.take()
		a := &archive{size: 2, largest: at(3, 0), flat: true, delay: 4 * time.Second}
		_, other := b.dialForeign(us[1], func(cfg *session.Config) { cfg.Handler.(*clientHandler).fetch = a.serve })
		meanwhile := other.serve(&source{largest: &a.largest})
		time.Sleep(time.Second)
		b.dialForeign(us[0], func(cfg *session.Config) {
			(&client{handler: cfg.Handler.(*clientHandler)}).serve(&source{largest: &a.largest})
		})
		time.Sleep(2500 * time.Millisecond)
		require.Empty(t, k.take())
		require.NotNil(t, meanwhile.publication())
		time.Sleep(5 * time.Second)
		got := k.take()
		require.Contains(t, got, "1.1")
		require.Contains(t, got, "2.0, 2.1")
		require.Nil(t, meanwhile.publication(), "it is not needed any more")
	})
}

// The upstream relay is lost for long. Subscribers that cannot be served any more are told.
func TestUpstreamStaysAway(t *testing.T) {
	onBenches(t, Config{}, 2, func(bs []*bench) {
		us, sessions := bs[1].follow(bs[0])
		bs[0].next(nil)
		_, s := bs[1].connect().mustSubscribe(moqt.Parameters{})
		sessions[0].cut()
		us[0].SetDown()
		bs[1].done(s, moqt.DoneInternalError)
	})
}

// goaway has the upstream relay send GOAWAY in a session, and waits for it.
func (p *pipedUpstream) goaway(to *bench) {
	peers, _ := to.relay.sessions.list()
	for _, o := range peers {
		if o.Conn == p.there {
			require.NoError(to.t, o.Session.Goaway("", 0))
		}
	}
	<-p.Goaway()
}

// An upstream relay that breaks the protocol loses its session, and harms nobody else.
func TestMalformedUpstream(t *testing.T) {
	onBenches(t, Config{}, 2, func(bs []*bench) {
		us, sessions := bs[1].follow(bs[0])
		src := bs[1].next(nil)
		k, s := bs[1].connect().mustSubscribe(moqt.Parameters{})
		str, err := sessions[0].there.OpenUniStream()
		require.NoError(t, err)
		_, err = str.Write([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
		require.NoError(t, err)
		synctest.Wait()
		require.Error(t, sessions[0].peer.Session.Context().Err())
		src.group(0, 1)
		require.Equal(t, "0.0, 0 fin", k.take())
		require.NoError(t, s.Context().Err())
		bs[1].dial(us[0], bs[0])
	})
}

func TestRouteTable(t *testing.T) {
	onBench(t, Config{Scope: ScopeByPath}, func(b *bench) {
		general, sport, other := b.upstreamTo("moqt://a/x"), b.upstreamTo("moqt://b/x"), b.upstreamTo("moqt://c/y")
		table := RouteTable{
			{Upstreams: []*UpstreamRelay{general, other}},
			{moqt.Namespace{"live", "sport"}, []*UpstreamRelay{sport, general}},
		}
		for _, tt := range []struct {
			scope string
			ns    moqt.Namespace
			want  []*UpstreamRelay
		}{
			{"/x", moqt.Namespace{"live"}, []*UpstreamRelay{general}},
			{"/x", moqt.Namespace{"live", "sport"}, []*UpstreamRelay{sport, general}},
			{"/x", moqt.Namespace{"live", "sport", "cup"}, []*UpstreamRelay{sport, general}},
			{"/x", moqt.Namespace{"live", "sports"}, []*UpstreamRelay{general}},
			{"/y", moqt.Namespace{"live", "sport"}, []*UpstreamRelay{other}},
			{"/z", moqt.Namespace{"live"}, nil},
		} {
			require.Equal(t, tt.want, table.Upstreams(tt.scope, tt.ns))
		}
		_, err := b.relay.neighbors.NewUpstreamRelay(UpstreamRelayConfig{URL: "http://a"})
		require.ErrorContains(t, err, "must be moqt://")
	})
}
