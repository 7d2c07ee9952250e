package relay

import (
	"context"
	"errors"
	"os"
	"sync"
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

// rewrite changes a token file, and waits until the relay has noticed.
func (b *bench) rewrite(f *TokenFile, content string) {
	require.NoError(b.t, os.WriteFile(f.name, []byte(content), 0o600))
	f.mu.Lock()
	f.checked = time.Time{} // it was opened outside of the bubble, whose clock is another one
	f.mu.Unlock()
	time.Sleep(tokenCheckInterval + 2*reviewInterval)
	synctest.Wait()
}

const allTokens = "pub publish live\nkeep publish live\nsub subscribe,discover live\nstay subscribe,discover live\n"

func TestSubscribersPermissionIsWithdrawn(t *testing.T) {
	f := tokenFile(t, allTokens)
	onBench(t, Config{Authorizer: f}, func(b *bench) {
		src := &source{}
		_, err := src.offer(b.with("pub"), moqt.Parameters{})
		require.NoError(t, err)
		_, gone := b.with("sub").mustSubscribe(moqt.Parameters{})
		k, stays := b.with("stay").mustSubscribe(moqt.Parameters{})
		c := b.with("sub")
		o := c.acceptOffers(&offered{})
		tracks, err := c.subscribeTracks(moqt.Parameters{}, "live")
		require.NoError(t, err)
		offer := <-o.subs
		namespaces, err := b.with("sub").watch("live")
		require.NoError(t, err)

		b.rewrite(f, allTokens+"another all *\n")
		require.NoError(t, gone.Context().Err(), "its token is still there")
		b.rewrite(f, "pub publish live\nstay subscribe live")
		for _, r := range []*session.Request{
			gone.Request, offer.Request, tracks.Request, namespaces.Request,
		} {
			require.Error(t, r.Context().Err())
			require.Equal(t, "session UNAUTHORIZED", endOf(r.Session().Context()))
		}
		require.NoError(t, stays.Context().Err())
		src.group(1, 1)
		require.Equal(t, "1.0, 1 fin", k.take())
	})
}

// TestUpdatedTokens checks that the tokens of an update replace those of the request, and stay.
func TestUpdatedTokens(t *testing.T) {
	with := func(tok string) moqt.Parameters {
		return moqt.Parameters{AuthorizationTokens: []moqt.Token{token(tok)}}
	}
	f := tokenFile(t, "pub publish live", "old subscribe,discover live", "new subscribe,discover live")
	onBench(t, Config{Authorizer: f}, func(b *bench) {
		_, err := (&source{}).offer(b.with("pub"), moqt.Parameters{})
		require.NoError(t, err)
		_, sub := b.connect().mustSubscribe(with("old"))
		_, err = sub.Update(b.ctx, with("new"))
		require.NoError(t, err)
		c := b.connect()
		o := c.acceptOffers(&offered{})
		tracks, err := c.subscribeTracks(with("old"), "live")
		require.NoError(t, err)
		offer := <-o.subs
		require.NoError(t, tracks.Update(b.ctx, with("new")))

		b.rewrite(f, "pub publish live\nnew subscribe,discover live")
		_, err = sub.Update(b.ctx, moqt.Parameters{SubscriberPriority: ptr(uint8(1))})
		require.NoError(t, err, "an update without a token")
		require.NoError(t, tracks.Update(b.ctx, moqt.Parameters{}))
		require.NoError(t, offer.Context().Err())
		b.rewrite(f, "pub publish live\nold subscribe,discover live")
		b.done(sub, moqt.DoneUnauthorized)
		b.done(offer, moqt.DoneUnauthorized)
		require.Error(t, tracks.Context().Err())
	})
}

func TestPublishersPermissionIsWithdrawn(t *testing.T) {
	for _, offers := range []bool{false, true} {
		f := tokenFile(t, allTokens)
		onBench(t, Config{Authorizer: f, Grace: time.Second}, func(b *bench) {
			src, other := &source{}, &source{}
			c := b.with("pub")
			c.serve(src)
			if offers {
				_, err := src.offer(c, moqt.Parameters{})
				require.NoError(t, err)
			} else {
				c.announce("live")
			}
			keep := b.with("keep")
			keep.serve(other)
			keep.announce("live")
			k, s := b.with("sub").mustSubscribe(moqt.Parameters{})
			require.NotNil(t, src.publication())

			b.rewrite(f, "keep publish live\nsub subscribe live")
			require.Nil(t, src.publication(), "the relay has cancelled it")
			require.NoError(t, s.Context().Err())
			other.group(1, 1)
			require.Equal(t, "1.0, 1 fin", k.take(), "the other publisher's")
		})
	}
}

func TestFetchIsWithdrawn(t *testing.T) {
	f := tokenFile(t, allTokens)
	onBench(t, Config{Authorizer: f}, func(b *bench) {
		c := b.with("pub")
		src := c.serve(&source{})
		c.announce("live")
		b.with("stay").mustSubscribe(moqt.Parameters{})
		src.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).write(moqt.ObjectHeader{ObjectID: 0},
			"the end of it comes later")
		g := src.open(moqt.SubgroupHeader{GroupID: 2, FirstObject: true})
		b0, err := g.encoder.AppendObject(nil, moqt.ObjectHeader{PayloadLength: 1000})
		require.NoError(t, err)
		_, err = g.stream.Write(append(b0, "begin"...))
		require.NoError(t, err)
		synctest.Wait()
		m := standalone(at(1, 0), at(3, 0))
		m.Parameters = shows("sub")
		req, err := b.connect().Fetch(b.ctx, m)
		require.NoError(t, err)
		_, err = req.Wait(b.ctx)
		require.NoError(t, err)
		stream, err := req.Stream(b.ctx)
		require.NoError(t, err)
		b.rewrite(f, "pub publish live\nstay subscribe live")
		buf := make([]byte, 4096)
		for err == nil {
			_, err = stream.Read(buf)
		}
		require.ErrorContains(t, err, "code 0x7") // EXPIRED_AUTH_TOKEN
	})
}

func TestReviewWithoutAnswer(t *testing.T) {
	auth := &fickle{}
	onBench(t, Config{Authorizer: auth}, func(b *bench) {
		_, err := (&source{}).offer(b.connect(), moqt.Parameters{})
		require.NoError(t, err)
		_, s := b.connect().mustSubscribe(moqt.Parameters{})
		auth.refuse(errors.New("the directory is down"))
		time.Sleep(2 * reviewInterval)
		synctest.Wait()
		require.NoError(t, s.Context().Err())
		auth.refuse(&moqt.RequestError{Code: moqt.RequestUnauthorized})
		b.done(s, moqt.DoneUnauthorized)
	})
}

// fickle is an Authorizer whose answer changes.
type fickle struct {
	mu  sync.Mutex
	err error
}

func (f *fickle) Authorize(context.Context, AuthRequest) (Grant, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Grant{}, f.err
}

func (f *fickle) Changed() bool { return true }

func (f *fickle) refuse(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
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
		watch, err := b.connect().watch("live")
		require.NoError(t, err)
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
		time.Sleep(reviewRetry)
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
		_, err := b.connect().watch("live")
		require.NoError(t, err)
		time.Sleep(10*minReview + minReview/2)
		synctest.Wait()
		require.Equal(t, 11, auth.count())
	})
}

func TestFetchExpires(t *testing.T) {
	auth := &rules{allow: func(a AuthRequest) (g Grant, err error) {
		if a.Action == ActionFetch {
			g.Expires = time.Now().Add(10 * time.Second)
		}
		return g, nil
	}}
	onBench(t, Config{Authorizer: auth}, func(b *bench) {
		c := b.connect()
		src := c.serve(&source{})
		c.announce("live")
		b.connect().mustSubscribe(moqt.Parameters{})
		g := src.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true})
		part, err := g.encoder.AppendObject(nil, moqt.ObjectHeader{PayloadLength: 1000})
		require.NoError(t, err)
		_, err = g.stream.Write(append(part, "the rest never comes"...))
		require.NoError(t, err)
		synctest.Wait()
		req, err := b.connect().Fetch(b.ctx, standalone(at(1, 0), at(2, 0)))
		require.NoError(t, err)
		_, err = req.Wait(b.ctx)
		require.NoError(t, err)
		stream, err := req.Stream(b.ctx)
		require.NoError(t, err)
		for buf := make([]byte, 4096); err == nil; {
			_, err = stream.Read(buf)
		}
		require.ErrorContains(t, err, "code 0x7") // EXPIRED_AUTH_TOKEN
	})
}
