package relay

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
	"sluice/transport/transporttest"
)

// revocationBound is how long after its end a permission may be used, at most.
const revocationBound = time.Second

// revocation is a way in which the token "tok" loses its force, after a minute.
type revocation struct {
	authorizer func() Authorizer
	happens    func(*bench)
	expired    bool // which codes say
}

const others = "keep all *\n* subscribe open\n"

var revocations = map[string]revocation{
	"expires": {
		authorizer: func() Authorizer {
			return allowing(others + "tok all live expires=2000-01-01T00:01:00Z")
		},
		happens: func(*bench) {},
		expired: true,
	},
	"leaves the list": {
		authorizer: func() Authorizer { return allowing(others + "tok all live") },
		happens:    func(b *bench) { b.authorizer().(*tokenLines).set(others) },
	},
	"is withdrawn": {
		authorizer: func() Authorizer { return allowing(others + "tok all live") },
		happens: func(b *bench) {
			_, err := OperatorOf(b.relay).Withdrawn().Withdraw(subjectOf("tok"), time.Hour)
			require.NoError(b.t, err)
		},
	},
	"is refused at a review": {
		authorizer: func() Authorizer {
			return &rules{allow: func(r AuthRequest) (Grant, error) {
				otherwise := !bears(r, "tok") || bears(r, "keep") || r.Namespace[0] == "open"
				if otherwise || time.Now().Before(time.Date(2000, 1, 1, 0, 1, 0, 0, time.UTC)) {
					return Grant{Review: time.Now().Add(20 * time.Second)}, nil
				}
				return refuse(moqt.RequestUnauthorized, "withdrawn")
			}}
		},
		happens: func(*bench) {},
	},
}

// subjectOf returns the subject of a token in a file.
func subjectOf(tok string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(tok))) }

func bears(r AuthRequest, tok string) bool {
	for _, t := range r.Tokens {
		if string(t.Value) == tok {
			return true
		}
	}
	return false
}

// onRevocations runs a test for each version and each way in which a token loses its force.
func onRevocations(t *testing.T, f func(*bench, moqt.Version, revocation)) {
	for _, v := range moqt.Versions() {
		for name, r := range revocations {
			t.Run(fmt.Sprintf("draft-%d/%s", v, name), func(t *testing.T) {
				cfg := Config{Grace: time.Millisecond, MaxRendezvous: time.Hour, FillTimeout: time.Hour}
				onBench(t, cfg, func(b *bench) {
					b.authorize(r.authorizer())
					f(b, v, r)
				})
			})
		}
	}
}

// revoke lets the token lose its force now, a minute after the test has begun, and waits for as long as that may take.
func (r revocation) revoke(bs ...*bench) {
	at := time.Date(2000, 1, 1, 0, 1, 0, 0, time.UTC)
	time.Sleep(time.Until(at))
	for _, b := range bs {
		r.happens(b)
	}
	time.Sleep(revocationBound)
	synctest.Wait()
}

// bearing connects a client of a version with a token in its SETUP, unless that is empty.
func (b *bench) bearing(v moqt.Version, tok string) *client {
	return b.connectWith(transporttest.PipeConfig{Protocol: v.ALPN()}, func(cfg *session.Config) {
		if tok != "" {
			cfg.Tokens = []moqt.Token{token(tok)}
		}
	})
}

// shows returns parameters with a token.
func shows(tok string) moqt.Parameters {
	return moqt.Parameters{AuthorizationTokens: []moqt.Token{token(tok)}}
}

// endOf describes how the peer has ended a request or a session; "" if it has not.
func endOf(ctx context.Context) string {
	if ctx.Err() == nil {
		return ""
	}
	err := context.Cause(ctx)
	if done, ok := errors.AsType[*session.DoneError](err); ok {
		return "PUBLISH_DONE " + done.Status.String()
	}
	if refused, ok := errors.AsType[*moqt.RequestError](err); ok {
		return "REQUEST_ERROR " + refused.Code.String()
	}
	if reset, ok := errors.AsType[*transport.StreamError](err); ok && reset.Remote {
		return fmt.Sprint("reset ", reset.Code)
	}
	if closed, ok := errors.AsType[*transport.SessionError](err); ok && closed.Remote {
		return "session " + moqt.SessionErrorCode(closed.Code).String()
	}
	return err.Error()
}

// TestRevocationEndsRequests checks that each request ends with its token, and with the right code. The token is the
// request's, so the session goes on.
func TestRevocationEndsRequests(t *testing.T) {
	onRevocations(t, func(b *bench, v moqt.Version, r revocation) {
		done, refusal := "PUBLISH_DONE UNAUTHORIZED", "REQUEST_ERROR UNAUTHORIZED"
		if r.expired {
			done, refusal = "PUBLISH_DONE EXPIRED", "REQUEST_ERROR EXPIRED_AUTH_TOKEN"
		}
		const reset, cancelled = "reset 7", "reset 1"
		c := b.bearing(v, "")
		fed := b.bearing(v, "keep")
		ends := make(map[string]context.Context)
		want := make(map[string]string)
		expect := func(what string, ctx context.Context, how string) { ends[what], want[what] = ctx, how }

		kept := fed.offers(nil)
		_, sub := c.mustSubscribe(shows("tok"))
		expect("SUBSCRIBE", sub.Context(), done)
		kept.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(0)
		_, stays := b.bearing(v, "keep").mustSubscribe(moqt.Parameters{})

		if v != moqt.Draft16 { // it has no RENDEZVOUS_TIMEOUT
			patient := shows("tok")
			patient.RendezvousTimeout = new(uint64(time.Hour.Milliseconds()))
			waits, err := c.Subscribe(b.ctx, moqt.Subscribe{
				Track:      moqt.FullTrackName{Namespace: moqt.Namespace{"live", "nobody"}, Name: "video"},
				Parameters: patient,
			}, nil)
			require.NoError(t, err)
			expect("SUBSCRIBE that waits", waits.Context(), refusal)
		}

		src := &source{c: c}
		pub, err := c.Publish(b.ctx, moqt.Publish{
			Track:      moqt.FullTrackName{Namespace: moqt.Namespace{"live", "own"}, Name: "video"},
			Parameters: shows("tok"),
		})
		require.NoError(t, err)
		require.NoError(t, pub.Wait(b.ctx))
		go src.keep(pub)
		expect("PUBLISH", pub.Context(), reset)
		ns, err := c.PublishNamespace(b.ctx,
			moqt.PublishNamespace{Namespace: moqt.Namespace{"live", "all"}, Parameters: shows("tok")})
		require.NoError(t, err)
		require.NoError(t, ns.Wait(b.ctx))
		expect("PUBLISH_NAMESPACE", ns.Context(), reset)
		if v == moqt.Draft16 { // UNSUBSCRIBE and PUBLISH_NAMESPACE_CANCEL
			want["PUBLISH"], want["PUBLISH_NAMESPACE"] = cancelled, cancelled
		}

		watch, err := c.SubscribeNamespace(b.ctx,
			moqt.SubscribeNamespace{Prefix: moqt.Namespace{"live"}, Parameters: shows("tok")}, (&namespaces{}).change)
		require.NoError(t, err)
		require.NoError(t, watch.Wait(b.ctx))
		expect("SUBSCRIBE_NAMESPACE", watch.Context(), reset)
		if v != moqt.Draft16 {
			viewer := b.bearing(v, "")
			offers := viewer.acceptOffers(&offered{})
			tracks := viewer.mustSubscribeTracks(shows("tok"), "live", "room")
			expect("SUBSCRIBE_TRACKS", tracks.Context(), reset)
			expect("PUBLISH of the relay", (<-offers.subs).Context(), done)
		}

		r.revoke(b)
		got := make(map[string]string)
		for what, ctx := range ends {
			got[what] = endOf(ctx)
		}
		require.Equal(t, want, got)
		require.Empty(t, endOf(c.Context()), "the session needed no token")
		require.Empty(t, endOf(stays.Context()), "it has another token")
	})
}

// subscribeIn subscribes to the track "video" in a namespace.
func (c *client) subscribeIn(params moqt.Parameters, ns ...string) *session.Subscription {
	sub, err := c.Subscribe(c.b.ctx, moqt.Subscribe{
		Track: moqt.FullTrackName{Namespace: ns, Name: "video"}, Parameters: params,
	}, &sink{})
	require.NoError(c.b.t, err)
	_, err = sub.Wait(c.b.ctx)
	require.NoError(c.b.t, err)
	return sub
}

// sessionEnd is how a session ends whose token has lost its force.
func (r revocation) sessionEnd() string {
	if r.expired {
		return "session EXPIRED_AUTH_TOKEN"
	}
	return "session UNAUTHORIZED"
}

// TestRevocationEndsSessions checks that a session ends with the token of its SETUP, with requests and without.
func TestRevocationEndsSessions(t *testing.T) {
	onRevocations(t, func(b *bench, v moqt.Version, r revocation) {
		src := b.bearing(v, "keep").offers(nil)
		src.group(1, 1)
		more := b.bearing(v, "keep").serve(&source{})
		more.c.announce("open")
		more.c.announce("live", "else")

		viewer, idle := b.bearing(v, "tok"), b.bearing(v, "tok")
		viewer.mustSubscribe(moqt.Parameters{})
		_, left := idle.mustSubscribe(moqt.Parameters{})
		left.Cancel(moqt.ResetCancelled)
		camera := b.bearing(v, "tok").serve(&source{})
		camera.c.announce("live", "own")
		web := b.connectWith(transporttest.PipeConfig{
			Kind: transport.WebTransport, Protocol: v.ALPN(), Authority: "relay", Path: "/",
		}, func(cfg *session.Config) {
			cfg.Authority, cfg.Path, cfg.Tokens = "", "", []moqt.Token{token("tok")}
		})
		web.mustSubscribe(moqt.Parameters{})

		unused, anybody := b.bearing(v, "tok"), b.bearing(v, "tok")
		open := anybody.subscribeIn(moqt.Parameters{}, "open")
		renewed := b.bearing(v, "tok")
		_, old := renewed.mustSubscribe(moqt.Parameters{})
		fresh := renewed.subscribeIn(shows("keep"), "live", "else")

		r.revoke(b)
		for name, c := range map[string]*client{"viewer": viewer, "idle": idle, "camera": camera.c, "web": web} {
			require.Equal(t, r.sessionEnd(), endOf(c.Context()), name)
		}
		require.Empty(t, endOf(unused.Context()), "the token has allowed nothing")
		require.Empty(t, endOf(anybody.Context()), "everybody may do that")
		require.Empty(t, endOf(open.Context()))
		require.Error(t, old.Context().Err())
		require.Empty(t, endOf(renewed.Context()), "it has shown another token since")
		require.Empty(t, endOf(fresh.Context()))
	})
}

// TestRevocationOfNamespaces checks that a publisher whose PUBLISH_NAMESPACE has lost its permission publishes nothing
// more: the relay ends its subscription, and a FETCH that is under way. Two namespaces that end at once do not excuse
// each other.
func TestRevocationOfNamespaces(t *testing.T) {
	onRevocations(t, func(b *bench, v moqt.Version, r revocation) {
		c := b.bearing(v, "")
		src := c.serve(&source{largest: new(at(3, 0))})
		fetched := make(chan *session.IncomingFetch, 1)
		c.handler.fetch = func(f *session.IncomingFetch) {
			require.NoError(b.t, f.OK(moqt.FetchOK{End: f.Range.FetchEnd()}))
			_, err := f.OpenStream(f.Context())
			require.NoError(b.t, err)
			fetched <- f
		}
		for _, ns := range []moqt.Namespace{{"live"}, {"live", "room"}} {
			p, err := c.PublishNamespace(b.ctx, moqt.PublishNamespace{Namespace: ns, Parameters: shows("tok")})
			require.NoError(b.t, err)
			require.NoError(b.t, p.Wait(b.ctx))
		}
		viewer := b.bearing(v, "keep")
		k, _ := viewer.mustSubscribe(moqt.Parameters{})
		g := src.open(moqt.SubgroupHeader{GroupID: 4, FirstObject: true}).object(0)
		require.Equal(b.t, "4.0", k.take())
		_, err := viewer.Fetch(b.ctx, standalone(at(1, 0), at(2, 0)))
		require.NoError(b.t, err)
		f := <-fetched

		r.revoke(b)
		require.Nil(b.t, src.publication())
		require.Error(b.t, f.Context().Err())
		_, _ = g.stream.Write([]byte("more")) // fails once the relay has stopped the stream
		require.NotContains(b.t, k.take(), "4.1")
	})
}

// TestRevocationDoesNotWaitForThePeer checks that a publisher does not keep its permission by leaving an update of the
// relay unanswered.
func TestRevocationDoesNotWaitForThePeer(t *testing.T) {
	onRevocations(t, func(b *bench, v moqt.Version, r revocation) {
		c := b.bearing(v, "")
		pub, err := c.Publish(b.ctx, moqt.Publish{Track: video, Parameters: shows("tok")})
		require.NoError(b.t, err)
		require.NoError(b.t, pub.Wait(b.ctx))
		time.Sleep(time.Until(time.Date(2000, 1, 1, 0, 0, 59, 0, time.UTC)))
		viewer := b.bearing(v, "keep")
		viewer.mustSubscribe(moqt.Parameters{Forward: new(false)})
		r.revoke(b)
		require.Error(b.t, pub.Context().Err())
	})
}

// TestOffersFollowTheirRequest checks that tracks offered for a SUBSCRIBE_TRACKS last as long as its permission, also
// when an update has extended that.
func TestOffersFollowTheirRequest(t *testing.T) {
	f := []string{"keep all *", "tok discover live expires=2000-01-01T00:01:00Z",
		"next discover live expires=2000-01-01T00:02:00Z"}
	onBench(t, Config{}, func(b *bench) {
		b.authorize(allowing(f...))
		b.with("keep").offers(nil)
		c := b.connect()
		o := c.acceptOffers(&offered{})
		tracks := c.mustSubscribeTracks(shows("tok"), "live")
		offer := <-o.subs
		require.NoError(t, tracks.Update(b.ctx, shows("next")))
		time.Sleep(time.Minute + revocationBound)
		synctest.Wait()
		require.Empty(t, endOf(offer.Context()))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, "PUBLISH_DONE EXPIRED", endOf(offer.Context()))
		require.Equal(t, "reset 7", endOf(tracks.Context()))
	})
}
