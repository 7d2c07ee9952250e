package relay

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
	"sluice/transport/transporttest"
)

func TestPublishWithoutSubscribersIsNotForwarded(t *testing.T) {
	onBench(t, Config{Linger: 2 * time.Second}, func(b *bench) {
		src := &source{largest: &moqt.Location{Group: 8}}
		pub, err := src.offer(b.connect(), moqt.Parameters{LargestObject: src.largest, Forward: new(false)})
		require.NoError(t, err)
		require.False(t, pub.Forward())

		src.largest = &moqt.Location{Group: 9, Object: 5}
		c := b.connect()
		k, s := c.mustSubscribe(moqt.Parameters{})
		require.True(t, pub.Forward(), "the first subscriber sets Forward to 1")
		ok, err := s.Wait(b.ctx)
		require.NoError(t, err)
		require.Equal(t, *src.largest, *ok.Parameters.LargestObject, "and is told the Largest Object that came with it")
		src.group(10, 1)
		require.Equal(t, "10.0, 10 fin", k.take())

		s.Cancel(moqt.ResetCancelled)
		synctest.Wait()
		require.True(t, pub.Forward())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.False(t, pub.Forward(), "the last one sets it to 0")
		require.NoError(t, pub.Context().Err(), "the publisher need not offer the track again")
	})
}

// offered collects the PUBLISH requests that a client gets, and accepts them.
type offered struct {
	sink
	params moqt.Parameters
	refuse *moqt.RequestError
	subs   chan *session.Subscription
}

func (c *client) acceptOffers(o *offered) *offered {
	o.subs = make(chan *session.Subscription, 10)
	c.handler.publish = func(s *session.Subscription) {
		o.subs <- s
		if o.refuse != nil {
			s.Reject(o.refuse)
			return
		}
		s.Accept(o.params, o)
	}
	return o
}

func (c *client) subscribeTracks(params moqt.Parameters, prefix ...string) (*session.TracksSubscription, error) {
	w, err := c.SubscribeTracks(c.b.ctx, moqt.SubscribeTracks{Prefix: prefix, Parameters: params},
		func(n moqt.FullTrackName) {
			c.b.t.Log("blocked", n)
			c.blocked = append(c.blocked, n)
		})
	require.NoError(c.b.t, err)
	err = w.Wait(c.b.ctx)
	synctest.Wait()
	return w, err
}

func (c *client) mustSubscribeTracks(params moqt.Parameters, prefix ...string) *session.TracksSubscription {
	c.b.t.Helper()
	w, err := c.subscribeTracks(params, prefix...)
	require.NoError(c.b.t, err)
	return w
}

func TestSubscribeTracks(t *testing.T) {
	for _, late := range []bool{false, true} {
		onBench(t, Config{}, func(b *bench) {
			c := b.connect()
			o := c.acceptOffers(&offered{})
			src := &source{properties: moqt.Properties{0x38, 1}}
			if late {
				c.mustSubscribeTracks(moqt.Parameters{}, "live")
			}
			pub, err := src.offer(b.connect(), moqt.Parameters{LargestObject: &moqt.Location{Group: 3}})
			require.NoError(t, err)
			if !late {
				c.mustSubscribeTracks(moqt.Parameters{}, "live")
			}
			s := <-o.subs
			require.Equal(t, video, s.Track())
			require.Equal(t, src.properties, s.Properties())
			require.Equal(t, moqt.Location{Group: 3}, *s.Offer().Parameters.LargestObject)
			synctest.Wait()
			require.True(t, pub.Forward())
			src.group(4, 2)
			require.Equal(t, "4.0, 4.1, 4 fin", o.take())
			b.connect().mustSubscribeTracks(moqt.Parameters{}, "other")
		})
	}
}

func TestSubscribeTracksExcludesOwnAndKnownTracks(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		c := b.connect()
		o := c.acceptOffers(&offered{})
		c.mustSubscribeTracks(moqt.Parameters{})
		c.offers(nil)

		subscribed := b.connect()
		so := subscribed.acceptOffers(&offered{})
		k, _ := subscribed.mustSubscribe(moqt.Parameters{})
		subscribed.mustSubscribeTracks(moqt.Parameters{}, "live")
		synctest.Wait()
		require.Empty(t, o.subs)
		require.Empty(t, so.subs)
		require.Empty(t, k.take())
	})
}

func TestParametersOfPublishOK(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		c := b.connect()
		o := c.acceptOffers(&offered{params: moqt.Parameters{
			SubscriberPriority: new(uint8(5)), GroupOrder: new(moqt.Descending), ObjectDeliveryTimeout: new(uint64(80)),
			Filter: &moqt.Filter{Type: moqt.FilterAbsoluteStart, Start: moqt.Location{Group: 2}},
		}})
		c.mustSubscribeTracks(moqt.Parameters{}, "live")
		src := b.next(nil)
		src.group(1, 1)
		src.group(2, 1)
		require.Equal(t, "2.0, 2 fin", o.take())
		out := c.sender().subs[len(c.sender().subs)-1].cfg
		require.Equal(t, []any{uint8(5), true, 80 * time.Millisecond},
			[]any{out.Priority, out.Descending, out.Timeouts.Object})
	})
}

func TestPublishBlocked(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		// The client opens the stream of SUBSCRIBE_TRACKS; the relay may open two.
		c := b.connectWith(transporttest.PipeConfig{MaxStreams: 2})
		o := c.acceptOffers(&offered{})
		c.mustSubscribeTracks(moqt.Parameters{}, "live")
		pub := b.connect()
		for _, name := range []string{"a", "b", "c"} {
			p, err := pub.Publish(b.ctx,
				moqt.Publish{Track: moqt.FullTrackName{Namespace: moqt.Namespace{"live", "x"}, Name: name}})
			require.NoError(t, err)
			require.NoError(t, p.Wait(b.ctx))
			synctest.Wait()
		}
		require.Len(t, o.subs, 2)
		require.Equal(t, []moqt.FullTrackName{{Namespace: moqt.Namespace{"live", "x"}, Name: "c"}}, c.blocked)
	})
}

// TestPublishBlockedWithoutEnd checks that a peer without streams cannot make the relay remember more and more tracks.
func TestPublishBlockedWithoutEnd(t *testing.T) {
	onBench(t, Config{MaxMatches: 2}, func(b *bench) {
		c := b.connectWith(transporttest.PipeConfig{MaxStreams: 1})
		o := c.acceptOffers(&offered{})
		w := c.mustSubscribeTracks(moqt.Parameters{}, "live")
		pub := b.connect()
		for _, name := range []string{"a", "b", "c", "d"} {
			require.NoError(t, w.Context().Err(), name)
			p, err := pub.Publish(b.ctx,
				moqt.Publish{Track: moqt.FullTrackName{Namespace: moqt.Namespace{"live", "x"}, Name: name}})
			require.NoError(t, err)
			require.NoError(t, p.Wait(b.ctx))
			synctest.Wait()
		}
		require.Len(t, o.subs, 1)
		require.Len(t, c.blocked, 2)
		ended := &transport.StreamError{}
		require.ErrorAs(t, context.Cause(w.Context()), &ended)
		require.EqualValues(t, moqt.ResetExcessiveLoad, ended.Code)
	})
}

func TestPublishAndSubscribeCross(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		pub := b.connect()
		pub.announce("live")
		pub.conn.Pause() // the relay's SUBSCRIBE is on its way when PUBLISH is sent
		c := b.connect()
		k := &sink{}
		s, err := c.Subscribe(b.ctx, moqt.Subscribe{Track: video}, k)
		require.NoError(t, err)
		synctest.Wait()
		src := &source{c: pub}
		p, err := pub.Publish(b.ctx, moqt.Publish{Track: video})
		require.NoError(t, err)
		synctest.Wait()
		pub.conn.Resume()
		require.NoError(t, p.Wait(b.ctx))
		go src.keep(p)
		_, err = s.Wait(b.ctx)
		require.NoError(t, err)
		synctest.Wait()
		src.group(1, 1)
		require.Equal(t, "1.0, 1 fin", k.take())
	})
}

func TestEndOfTrack(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src := &source{}
		pub, err := src.offer(b.connect(), moqt.Parameters{})
		require.NoError(t, err)
		k, s := b.connect().mustSubscribe(moqt.Parameters{})
		src.group(1, 2)
		require.NoError(t, pub.Done(moqt.DoneTrackEnded, "over"))
		done := b.done(s, moqt.DoneTrackEnded)
		require.Equal(t, "over", done.Reason)
		require.Equal(t, uint64(1), done.StreamCount)
		require.Equal(t, "1.0, 1.1, 1 fin", k.take())
		_, _, err = b.connect().subscribe(moqt.Parameters{})
		b.refused(err, moqt.RequestDoesNotExist)
	})
}

func TestStreamsAreDeliveredBeforePublishDone(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src := &source{}
		pub, err := src.offer(b.connect(), moqt.Parameters{})
		require.NoError(t, err)
		c := b.connect()
		k, s := c.mustSubscribe(moqt.Parameters{})
		c.conn.Pause()
		src.open(moqt.SubgroupHeader{GroupID: 1}).write(moqt.ObjectHeader{}, string(make([]byte, 300_000))).fin()
		require.NoError(t, pub.Done(moqt.DoneTrackEnded, ""))
		synctest.Wait()
		c.conn.Resume()
		b.done(s, moqt.DoneTrackEnded)
		require.Contains(t, k.take(), "300000 bytes, 1 fin")
	})
}

func TestPublisherThatEndsItsSubscriptionIsAskedAgain(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src := b.origin(&source{})
		k, s := b.connect().mustSubscribe(moqt.Parameters{})
		require.NoError(t, src.publication().Done(moqt.DoneExpired, ""))
		time.Sleep(3 * time.Second) // the old subscription has to drain
		synctest.Wait()
		require.Len(t, src.requests, 2)
		src.group(3, 1)
		require.Equal(t, "3.0, 3 fin", k.take())
		require.NoError(t, s.Context().Err())
	})
}

func TestSubscriptionsAreExtended(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src := b.origin(&source{expires: new(uint64(8000))})
		b.connect().mustSubscribe(moqt.Parameters{})
		time.Sleep(25 * time.Second)
		synctest.Wait()
		require.Len(t, src.updates, 4, "every 6 s")
		require.Equal(t, moqt.Parameters{}, src.updates[0])
	})
}

func TestLimitOfTracks(t *testing.T) {
	onBench(t, Config{MaxTracks: 1}, func(b *bench) {
		b.next(nil)
		c := b.connect()
		other := moqt.FullTrackName{Namespace: moqt.Namespace{"x"}, Name: "y"}
		s, err := c.Subscribe(b.ctx, moqt.Subscribe{Track: other}, &sink{})
		require.NoError(t, err)
		_, err = s.Wait(b.ctx)
		b.refused(err, moqt.RequestExcessiveLoad)
		p, err := c.Publish(b.ctx, moqt.Publish{Track: other})
		require.NoError(t, err)
		b.refused(p.Wait(b.ctx), moqt.RequestExcessiveLoad)
	})
}
