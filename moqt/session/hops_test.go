package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

const (
	ourHop   = 0x51
	theirHop = 0x7e
)

// playRelay runs f with a session that has a Hop ID, whose peer sends a SETUP.
func playRelay(t *testing.T, cfg Config, setup *moqt.Setup, f func(*script)) {
	t.Helper()
	cfg.HopID = ourHop
	play(t, setting{cfg: cfg, silent: true}, func(p *script) {
		p.setup(setup)
		<-p.s.Ready()
		f(p)
	})
}

// anotherSluice is the SETUP of a relay that takes HOP_PATH in requests.
func anotherSluice() *moqt.Setup { return &moqt.Setup{HopID: new(uint64(theirHop)), RequestHops: true} }

func TestHopsInSetup(t *testing.T) {
	for _, tc := range []struct {
		name  string
		setup moqt.Setup
		want  Peer
	}{
		{"none", moqt.Setup{}, Peer{}},
		{"HOP_ID", moqt.Setup{HopID: new(uint64(7))}, Peer{Hops: moqt.HopsOfNamespaces, HopID: 7, Cost: 1}},
		{"RELAY_HOPS", moqt.Setup{RelayHops: new(uint64(7))}, Peer{Hops: moqt.HopsOfNamespaces, HopID: 7, Cost: 1}},
		{"no name", moqt.Setup{HopID: new(uint64(0))}, Peer{Hops: moqt.HopsOfNamespaces, Cost: 1}},
		{"costs", moqt.Setup{HopID: new(uint64(7)), RelayCost: new(uint64(0))},
			Peer{Hops: moqt.HopsOfNamespaces, HopID: 7}},
		{"another Sluice", *anotherSluice(), Peer{Hops: moqt.HopsOfRequests, HopID: theirHop, Cost: 1}},
		{"nothing but requests", moqt.Setup{RequestHops: true}, Peer{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			playRelay(t, Config{Role: Server}, &tc.setup, func(p *script) {
				own := p.sentSetup()
				require.EqualValues(p, ourHop, *own.HopID)
				require.EqualValues(p, ourHop, *own.RelayHops)
				require.True(p, own.RequestHops)
				peer, err := p.s.Peer(p.Context())
				require.NoError(p, err)
				require.Equal(p, tc.want, peer)
			})
		})
	}
	play(t, setting{silent: true}, func(p *script) {
		p.setup(anotherSluice())
		own := p.sentSetup()
		require.Nil(p, own.HopID, "not a relay")
		require.Nil(p, own.RelayHops)
		require.False(p, own.RequestHops)
		peer, err := p.s.Peer(p.Context())
		require.NoError(p, err)
		require.Equal(p, Peer{}, peer)
	})
}

// requestAll sends a request of each type that has come through a path.
func requestAll(p *script, path moqt.HopPath) map[moqt.MessageType]error {
	ctx, params := p.Context(), moqt.Parameters{HopPath: path}
	errs := make(map[moqt.MessageType]error)
	_, errs[moqt.MessageSubscribe] = p.s.Subscribe(ctx, moqt.Subscribe{Track: testTrack, Parameters: params}, discard{})
	_, errs[moqt.MessagePublish] = p.s.Publish(ctx, moqt.Publish{Track: otherTrack, Parameters: params})
	_, errs[moqt.MessageFetch] = p.s.Fetch(ctx, moqt.Fetch{
		FetchType: moqt.FetchStandalone, Track: testTrack, Start: moqt.Location{Group: 1}, Parameters: params,
	})
	_, errs[moqt.MessagePublishNamespace] = p.s.PublishNamespace(ctx, moqt.PublishNamespace{Parameters: params})
	_, errs[moqt.MessageSubscribeNamespace] = p.s.SubscribeNamespace(ctx,
		moqt.SubscribeNamespace{Parameters: params}, changes(nil).notify)
	_, errs[moqt.MessageSubscribeTracks] = p.s.SubscribeTracks(ctx,
		moqt.SubscribeTracks{Parameters: params}, func(moqt.FullTrackName) {})
	return errs
}

func TestHopsOfOurRequests(t *testing.T) {
	for _, tc := range []struct {
		name       string
		setup      *moqt.Setup
		namespaces moqt.HopPath
		others     moqt.HopPath
	}{
		{"not a relay", &moqt.Setup{}, nil, nil},
		{"any relay", &moqt.Setup{RelayHops: new(uint64(theirHop))}, moqt.HopPath{0, 3, ourHop}, nil},
		{"another Sluice", anotherSluice(), moqt.HopPath{0, 3, ourHop}, moqt.HopPath{0, 3, ourHop}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			playRelay(t, Config{}, tc.setup, func(p *script) {
				errs := requestAll(p, moqt.HopPath{0, 3})
				for typ, err := range errs {
					require.NoError(p, err, typ)
				}
				for range errs {
					m := p.accept().receive()
					want := tc.others
					if m.Type() == moqt.MessagePublishNamespace {
						want = tc.namespaces
					}
					require.Equal(p, want, moqt.PartsOf(m).Parameters.HopPath, m.Type())
				}
			})
		})
	}
}

func TestOurUpdatesOfHops(t *testing.T) {
	playRelay(t, Config{}, &moqt.Setup{HopID: new(uint64(theirHop))}, func(p *script) {
		n, err := p.s.PublishNamespace(p.Context(), moqt.PublishNamespace{})
		require.NoError(p, err)
		e := p.accept()
		require.Equal(p, moqt.HopPath{ourHop}, e.receive().(*moqt.PublishNamespace).Parameters.HopPath)
		e.send(&moqt.RequestOK{})
		require.NoError(p, n.Wait(p.Context()))
		require.ErrorIs(p, n.Update(p.Context(), moqt.Parameters{HopPath: moqt.HopPath{theirHop}}), ErrLoop)
		go n.Update(p.Context(), moqt.Parameters{HopPath: moqt.HopPath{3}, RouteCost: new(uint64(2))})
		want := moqt.Parameters{HopPath: moqt.HopPath{3, ourHop}, RouteCost: new(uint64(2))}
		require.Equal(p, want, e.receive().(*moqt.RequestUpdate).Parameters)
		e.send(&moqt.RequestOK{})
	})
}

func TestRequestsOfARelayWaitForSetup(t *testing.T) {
	play(t, setting{cfg: Config{HopID: ourHop}, silent: true}, func(p *script) {
		sent := make(chan error, 1)
		go func() {
			_, err := p.s.Subscribe(p.Context(), moqt.Subscribe{Track: testTrack}, discard{})
			sent <- err
		}()
		time.Sleep(time.Second)
		require.Empty(p, sent)
		p.setup(anotherSluice())
		require.NoError(p, <-sent)
		require.Equal(p, moqt.HopPath{ourHop}, p.accept().receive().(*moqt.Subscribe).Parameters.HopPath)
	})
}

func TestRequestsThatWouldGoRound(t *testing.T) {
	long := make(moqt.HopPath, moqt.MaxHops)
	for _, path := range []moqt.HopPath{{0, theirHop, 3}, {ourHop}, long} {
		playRelay(t, Config{}, anotherSluice(), func(p *script) {
			for typ, err := range requestAll(p, path) {
				require.ErrorIs(p, err, ErrLoop, typ)
			}
			p.requireOpen()
		})
	}
}

func TestRequestsThatComeBack(t *testing.T) {
	h := newHandler()
	playRelay(t, Config{Role: Server, Handler: h}, anotherSluice(), func(p *script) {
		for _, m := range allRequests(moqt.Namespace{"a"}) {
			moqt.PartsOf(m).Parameters.HopPath = moqt.HopPath{ourHop, theirHop}
			code := moqt.RequestDoesNotExist
			if publishes(m) {
				code = moqt.RequestUninterested
			}
			e := p.request(m)
			require.NotEmpty(p, e.requireRefused(code).Reason)
		}
		p.request(&moqt.Subscribe{Track: testTrack, Parameters: moqt.Parameters{HopPath: moqt.HopPath{3, theirHop}}})
		require.Equal(p, moqt.HopPath{3, theirHop}, (<-h.subscribes).Parameters().HopPath)
		require.Empty(p, h.subscribes)
		p.requireOpen()
	})
}

func TestHopsOfSubscribeOK(t *testing.T) {
	h := newHandler()
	from := moqt.Parameters{HopPath: moqt.HopPath{0, 3}}
	playRelay(t, Config{Role: Server, Handler: h}, anotherSluice(), func(p *script) {
		e := p.request(&moqt.Subscribe{Track: testTrack})
		pub := <-h.subscribes
		require.ErrorIs(p, pub.Accept(moqt.Parameters{HopPath: moqt.HopPath{theirHop}}, nil), ErrLoop)
		require.NoError(p, pub.Accept(from, nil), "it was not answered yet")
		require.Equal(p, moqt.HopPath{0, 3, ourHop}, e.receive().(*moqt.SubscribeOK).Parameters.HopPath)
	})
	playRelay(t, Config{Role: Server, Handler: h}, &moqt.Setup{HopID: new(uint64(theirHop))}, func(p *script) {
		e := p.request(&moqt.Subscribe{Track: testTrack})
		require.NoError(p, (<-h.subscribes).Accept(from, nil))
		require.Nil(p, e.receive().(*moqt.SubscribeOK).Parameters.HopPath)
	})
	playRelay(t, Config{}, anotherSluice(), func(p *script) {
		sub, e := p.subscribe(testTrack, discard{})
		e.send(&moqt.SubscribeOK{Parameters: moqt.Parameters{HopPath: moqt.HopPath{3, theirHop}}})
		ok, err := sub.Wait(p.Context())
		require.NoError(p, err)
		require.Equal(p, moqt.HopPath{3, theirHop}, ok.Parameters.HopPath)
	})
}

func TestServeNamespacesWithHops(t *testing.T) {
	h := newHandler()
	playRelay(t, Config{Role: Server, Handler: h}, &moqt.Setup{HopID: new(uint64(theirHop))}, func(p *script) {
		e := p.request(&moqt.SubscribeNamespace{})
		n := <-h.discovers
		require.NoError(p, n.OK())
		require.IsType(p, &moqt.RequestOK{}, e.receive())
		a := moqt.Namespace{"a"}
		added := func(cost uint64, path ...uint64) *moqt.NamespaceAdded {
			return &moqt.NamespaceAdded{Suffix: a, Parameters: &moqt.Parameters{HopPath: path, RouteCost: &cost}}
		}
		add := func(cost uint64, path ...uint64) error {
			return n.Add(a, moqt.Parameters{HopPath: path, RouteCost: &cost})
		}
		require.NoError(p, add(1, 0))
		require.Equal(p, added(1, 0, ourHop), e.receive())
		require.NoError(p, add(1, 0), "nothing has changed")
		require.NoError(p, add(2, 0))
		require.Equal(p, added(2, 0, ourHop), e.receive())
		require.NoError(p, add(2, 0, 3))
		require.Equal(p, added(2, 0, 3, ourHop), e.receive())
		require.ErrorIs(p, add(1, 0, theirHop), ErrLoop)
		require.NoError(p, n.Remove(a))
		require.Equal(p, &moqt.NamespaceDone{Suffix: a}, e.receive())
	})
}

// ways collects the changes of a namespace subscription as "+a [3 126] 2" and "-a".
type ways chan string

func (w ways) notify(ns moqt.Namespace, published bool, p moqt.Parameters) {
	if published {
		w <- fmt.Sprintf("+%s %d %d", strings.Join(ns, "/"), p.HopPath, p.Cost())
	} else {
		w <- "-" + strings.Join(ns, "/")
	}
}

func TestNamespacesWithHops(t *testing.T) {
	playRelay(t, Config{}, &moqt.Setup{HopID: new(uint64(theirHop))}, func(p *script) {
		w := make(ways, 100)
		_, err := p.s.SubscribeNamespace(p.Context(), moqt.SubscribeNamespace{}, w.notify)
		require.NoError(p, err)
		e := p.accept()
		added := func(name string, path ...uint64) moqt.Message {
			return &moqt.NamespaceAdded{Suffix: moqt.Namespace{name}, Parameters: &moqt.Parameters{HopPath: path}}
		}
		done := func(name string) moqt.Message { return &moqt.NamespaceDone{Suffix: moqt.Namespace{name}} }
		cheap := added("a", 3, theirHop).(*moqt.NamespaceAdded)
		cheap.Parameters.RouteCost = new(uint64(2))
		e.send(&moqt.RequestOK{},
			added("b", 3, ourHop, theirHop), done("b"), // not for us
			added("a", theirHop), added("a", theirHop), added("a", 3, theirHop), cheap,
			added("a", ourHop, theirHop), added("a", ourHop, 3, theirHop), // gone, as far as we can use it
			added("a", 4, theirHop), done("a"), added("c", 5, theirHop))
		for _, want := range []string{
			"+a [126] 0", "+a [3 126] 0", "+a [3 126] 2", "-a", "+a [4 126] 0", "-a", "+c [5 126] 0",
		} {
			require.Equal(p, want, <-w)
		}
		e.send(added("c", ourHop, theirHop))
		require.Equal(p, "-c", <-w)
		require.NoError(p, e.Close())
		p.requireOpen()
		require.Empty(p, w, "what had come back does not disappear")
	})
}

func TestUpdatesOfHops(t *testing.T) {
	path := func(hops ...uint64) moqt.Parameters { return moqt.Parameters{HopPath: hops} }
	announce := func(p *script, h *handler) (*exchange, *IncomingPublishNamespace) {
		e := p.request(&moqt.PublishNamespace{Namespace: moqt.Namespace{"a"}, Parameters: path(theirHop)})
		n := <-h.namespaces
		require.NoError(p, n.OK())
		require.IsType(p, &moqt.RequestOK{}, e.receive())
		return e, n
	}
	run := func(name string, f func(*script, *exchange, *IncomingPublishNamespace)) {
		t.Run(name, func(t *testing.T) {
			h := newHandler()
			setup := &moqt.Setup{RelayHops: new(uint64(theirHop))}
			playRelay(t, Config{Role: Server, Handler: h}, setup, func(p *script) {
				e, n := announce(p, h)
				f(p, e, n)
			})
		})
	}
	run("REQUEST_UPDATE", func(p *script, e *exchange, n *IncomingPublishNamespace) {
		e.update(path(3, theirHop))
		u := <-n.Updates()
		require.Equal(p, moqt.HopPath{3, theirHop}, u.Parameters.HopPath)
		require.NoError(p, u.OK(moqt.Parameters{}))
		require.IsType(p, &moqt.RequestOK{}, e.receive())
		require.Equal(p, moqt.HopPath{3, theirHop}, n.Parameters().HopPath)
		e.update(moqt.Parameters{RouteCost: new(uint64(5))})
		require.NoError(p, (<-n.Updates()).OK(moqt.Parameters{}))
		require.IsType(p, &moqt.RequestOK{}, e.receive())
		require.Equal(p, moqt.Parameters{HopPath: moqt.HopPath{3, theirHop}, RouteCost: new(uint64(5))}, n.Parameters())

		e.update(path(ourHop, theirHop))
		refused := &moqt.RequestError{}
		require.ErrorAs(p, (<-n.Updates()).OK(moqt.Parameters{}), &refused)
		e.requireRefused(moqt.RequestUninterested)
		<-n.Context().Done()
	})
	run("PUBLISH_NAMESPACE again", func(p *script, e *exchange, n *IncomingPublishNamespace) {
		e.send(&moqt.PublishNamespace{Namespace: moqt.Namespace{"a"}, Parameters: path(3, theirHop)})
		u := <-n.Updates()
		require.Equal(p, moqt.HopPath{3, theirHop}, u.Parameters.HopPath)
		require.NoError(p, u.OK(moqt.Parameters{}))
		require.Equal(p, moqt.Parameters{HopPath: moqt.HopPath{3, theirHop}, RouteCost: new(uint64(0))}, n.Parameters())
		e.update(path(4, theirHop))
		require.NoError(p, (<-n.Updates()).OK(moqt.Parameters{}))
		require.IsType(p, &moqt.RequestOK{}, e.receive(), "to the update")
		require.NoError(p, e.Close())
		p.requireOpen()
	})
	run("PUBLISH_NAMESPACE of another one", func(p *script, e *exchange, _ *IncomingPublishNamespace) {
		e.send(&moqt.PublishNamespace{Namespace: moqt.Namespace{"b"}, Parameters: path(theirHop)})
		p.requireClosed(moqt.SessionProtocolViolation)
	})
	run("PUBLISH_NAMESPACE without end", func(p *script, e *exchange, n *IncomingPublishNamespace) {
		for range maxUnansweredUpdates + 1 {
			e.send(&moqt.PublishNamespace{Namespace: moqt.Namespace{"a"}, Parameters: path(theirHop)})
		}
		e.requireReset(moqt.ResetExcessiveLoad)
		<-n.Context().Done()
		p.requireOpen()
	})
}
