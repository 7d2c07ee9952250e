package relay

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

func trackOf(tenant, name string) moqt.FullTrackName {
	return moqt.FullTrackName{Namespace: moqt.Namespace{tenant, "room"}, Name: name}
}

// guestsOf returns a function that makes guests who play the broadcast of a tenant, with a token, and one that ends
// them.
func guestsOf(b *bench) (guestOf func(tenant, token string) *Guest, leave func()) {
	var all []*Guest
	return func(tenant, token string) *Guest {
			cfg := guestFrom("192.0.2.1", ActionSubscribe, token)
			track := trackOf(tenant, ".catalog")
			cfg.Namespace, cfg.Name = track.Namespace, track.Name
			all = append(all, b.admit(cfg))
			return all[len(all)-1]
		}, func() {
			for _, g := range all {
				g.Leave()
			}
		}
}

// TestAudience checks that the relay's own session gets no more than each of its guests may have.
func TestAudience(t *testing.T) {
	onBench(t, Config{Authorizer: allowing("a subscribe a", "b subscribe b", "both subscribe *")}, func(b *bench) {
		guestOf, leave := guestsOf(b)
		defer leave()
		ask := func(a *Audience, action Action, track moqt.FullTrackName) error {
			if refused := a.mayAsk(b.ctx, action, track); refused != nil {
				return refused
			}
			return nil
		}
		refuses := func(err error) { t.Helper(); b.refused(err, moqt.RequestUnauthorized) }

		nobody := NewAudience()
		refuses(ask(nobody, ActionSubscribe, trackOf("a", "video")))

		a := NewAudience()
		one, both := guestOf("a", "a"), guestOf("a", "both")
		require.NoError(t, a.Join(b.ctx, one))
		for _, action := range []Action{ActionSubscribe, ActionFetch} {
			require.NoError(t, ask(a, action, trackOf("a", "video")))
			refuses(ask(NewAudience(), action, trackOf("a", "video")))
		}
		refuses(ask(a, ActionPublish, trackOf("a", "video")))
		refuses(ask(a, ActionPublishNamespace, trackOf("a", "")))
		refuses(ask(a, ActionTrackStatus, trackOf("a", "video")))
		require.NoError(t, one.Context().Err())

		require.NoError(t, a.Join(b.ctx, both))
		require.NoError(t, ask(a, ActionSubscribe, trackOf("b", "private")), "one of them may")
		require.ErrorIs(t, context.Cause(one.Context()), ErrWithdrawn, "the other one has to leave")
		refuses(context.Cause(one.Context()))
		require.NoError(t, both.Context().Err())
		refuses(a.Join(b.ctx, guestOf("a", "a")))
		require.NoError(t, a.Join(b.ctx, guestOf("a", "both")))

		alone := NewAudience()
		thief := guestOf("b", "b")
		require.NoError(t, alone.Join(b.ctx, thief))
		refuses(ask(alone, ActionFetch, trackOf("a", "private")))
		refuses(ask(alone, ActionSubscribe, trackOf("a", "private")))
		require.ErrorIs(t, context.Cause(thief.Context()), ErrWithdrawn)
		require.ErrorIs(t, alone.Join(b.ctx, both), ErrAudienceOver, "what was refused does not come any more")

		many := NewAudience()
		require.NoError(t, many.Join(b.ctx, both))
		for i := range maxAudienceTracks {
			require.NoError(t, ask(many, ActionSubscribe, trackOf("a", strconv.Itoa(i))))
		}
		b.refused(ask(many, ActionSubscribe, trackOf("a", "one more")), moqt.RequestExcessiveLoad)
		require.NoError(t, ask(many, ActionSubscribe, trackOf("a", "0")))
	})
}

// TestAudienceAsksOnce checks that requests for one track wait for one decision.
func TestAudienceAsksOnce(t *testing.T) {
	answer := make(chan error)
	auth := &rules{allow: func(r AuthRequest) (Grant, error) {
		if r.Name == ".catalog" {
			return Grant{}, nil
		}
		return Grant{}, <-answer
	}}
	onBench(t, Config{}, func(b *bench) {
		guestOf, leave := guestsOf(b)
		defer leave()
		b.authorize(auth)
		answer = make(chan error)
		a := NewAudience()
		require.NoError(t, a.Join(b.ctx, guestOf("a", "a")))
		refusals := make(chan *moqt.RequestError, 2)
		for range 2 {
			go func() { refusals <- a.mayAsk(b.ctx, ActionSubscribe, trackOf("b", "private")) }()
		}
		synctest.Wait()
		require.Empty(t, refusals)
		answer <- &moqt.RequestError{Code: moqt.RequestUnauthorized}
		require.NotNil(t, <-refusals)
		require.NotNil(t, <-refusals)
	})
}

// TestAudienceIsReviewed checks that a guest has to leave when one of the tracks is not allowed any more.
func TestAudienceIsReviewed(t *testing.T) {
	for name, next := range map[string]string{"withdrawn": "x subscribe a", "expired": ""} {
		t.Run(name, func(t *testing.T) {
			onBench(t, Config{}, func(b *bench) {
				allowed := allowing("x subscribe a", "x subscribe b expires=2000-01-01T00:01:00Z")
				b.authorize(allowed)
				guestOf, leave := guestsOf(b)
				defer leave()
				a := NewAudience()
				g := guestOf("a", "x")
				require.NoError(t, a.Join(b.ctx, g))
				require.Nil(t, a.mayAsk(b.ctx, ActionSubscribe, trackOf("b", "video")))
				synctest.Wait()
				require.NoError(t, g.Context().Err())
				if next != "" {
					allowed.set(next)
					time.Sleep(5 * time.Second)
				} else {
					time.Sleep(2 * time.Minute)
				}
				require.ErrorIs(t, context.Cause(g.Context()), ErrWithdrawn)
			})
		})
	}
}
