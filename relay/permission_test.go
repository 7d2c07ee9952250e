package relay

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
)

// with connects a client whose SETUP has a token.
func (b *bench) with(tok string) *client {
	return b.connect(func(cfg *session.Config) { cfg.Tokens = []moqt.Token{token(tok)} })
}

// rewrite changes what tokens allow, and waits until the relay has noticed.
func (b *bench) rewrite(k *tokenLines, lines string) {
	k.set(lines)
	time.Sleep(2 * reviewInterval)
	synctest.Wait()
}

// TestUpdatedTokens checks that the tokens of an update replace those of the request, and stay.
func TestUpdatedTokens(t *testing.T) {
	with := func(tok string) moqt.Parameters {
		return moqt.Parameters{AuthorizationTokens: []moqt.Token{token(tok)}}
	}
	f := allowing("pub publish live", "old subscribe,discover live", "new subscribe,discover live")
	onBench(t, Config{Authorizer: f}, func(b *bench) {
		b.with("pub").offers(nil)
		_, sub := b.connect().mustSubscribe(with("old"))
		b.update(sub, with("new"))
		c := b.connect()
		o := c.acceptOffers(&offered{})
		tracks := c.mustSubscribeTracks(with("old"), "live")
		offer := <-o.subs
		require.NoError(t, tracks.Update(b.ctx, with("new")))

		b.rewrite(f, "pub publish live\nnew subscribe,discover live")
		_, err := sub.Update(b.ctx, moqt.Parameters{SubscriberPriority: new(uint8(1))})
		require.NoError(t, err, "an update without a token")
		require.NoError(t, tracks.Update(b.ctx, moqt.Parameters{}))
		require.NoError(t, offer.Context().Err())
		b.rewrite(f, "pub publish live\nold subscribe,discover live")
		b.done(sub, moqt.DoneUnauthorized)
		b.done(offer, moqt.DoneUnauthorized)
		require.Error(t, tracks.Context().Err())
	})
}

func (r *rules) answer(allow func(AuthRequest) (Grant, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.allow = allow
}

func (r *rules) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asked)
}

// refuseWith answers all requests with an error.
func (r *rules) refuseWith(code moqt.RequestErrorCode) {
	r.answer(func(AuthRequest) (Grant, error) { return Grant{}, &moqt.RequestError{Code: code} })
}

func TestGrantsAreReviewed(t *testing.T) {
	const interval = 30 * time.Second
	auth := &rules{allow: func(AuthRequest) (Grant, error) {
		return Grant{Review: time.Now().Add(interval)}, nil
	}}
	onBench(t, Config{Authorizer: auth, Grace: time.Second}, func(b *bench) {
		pub, err := (&source{}).offer(b.connect(), moqt.Parameters{})
		require.NoError(t, err)
		_, sub := b.connect().mustSubscribe(moqt.Parameters{})
		watch := b.connect().mustWatch("live")
		require.Equal(t, 3, auth.count())
		time.Sleep(interval)
		synctest.Wait()
		require.Equal(t, 6, auth.count(), "each request is reviewed once")

		for _, code := range []moqt.RequestErrorCode{moqt.RequestInternalError, moqt.RequestExcessiveLoad} {
			auth.refuseWith(code)
			time.Sleep(interval)
			synctest.Wait()
			ended := errors.Join(pub.Context().Err(), sub.Context().Err(), watch.Context().Err())
			require.NoError(t, ended, "no answer")
		}
		auth.refuseWith(moqt.RequestUnauthorized)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		b.done(sub, moqt.DoneUnauthorized)
		require.Error(t, watch.Context().Err())
		require.Error(t, pub.Context().Err())
	})
}

// An Authorizer whose reviews are due at once is not asked all the time.
func TestReviewsAreNotRepeatedAtOnce(t *testing.T) {
	auth := &rules{allow: func(AuthRequest) (Grant, error) { return Grant{Review: time.Now()}, nil }}
	onBench(t, Config{Authorizer: auth}, func(b *bench) {
		b.connect().mustWatch("live")
		time.Sleep(10*time.Second + time.Second/2)
		synctest.Wait()
		require.Equal(t, 11, auth.count())
	})
}
