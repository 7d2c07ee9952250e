package relay

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/media"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/fetch"
	"sluice/transport/transporttest"
)

// speaks connects a client that speaks one version.
func (b *bench) speaks(v moqt.Version) *client {
	return b.connectWith(transporttest.PipeConfig{Protocol: v.ALPN()})
}

// HandleFill implements session.FillReceiver.
func (k *sink) HandleFill(f *session.Fill) {
	objects, _ := parseFetch(f, moqt.Draft22, moqt.Ascending) // the objects say how it ended
	k.note("fill (%s)", objects)
}

// TestVersions lets publishers and subscribers of all versions share tracks: what one sends in its version, the other
// gets in its own.
func TestVersions(t *testing.T) {
	for _, here := range moqt.Versions() {
		for _, there := range moqt.Versions() {
			t.Run(fmt.Sprintf("from %d to %d", here, there), func(t *testing.T) {
				onBench(t, Config{}, func(b *bench) {
					pub := b.speaks(here)
					src := pub.serve(&source{})
					pub.handler.fetch = (&archive{size: 3, largest: at(1, 2)}).serve
					pub.announce("live")
					c := b.speaks(there)
					k, s := c.mustSubscribe(moqt.Parameters{
						SubscriberPriority: new(uint8(3)), GroupOrder: new(moqt.Ascending),
					})
					src.group(2, 2)
					require.Equal(t, "2.0, 2.1, 2 fin", k.take())
					require.NoError(t, src.publication().SendDatagram(moqt.ObjectDatagram{
						Location: at(3, 0), Payload: []byte("object 0"),
					}))
					require.Equal(t, "datagram 3.0", k.take())
					ok := b.update(s, moqt.Parameters{Filter: &moqt.Filter{
						Type: moqt.FilterAbsoluteRange, Start: at(5, 0), EndGroupDelta: 1,
					}})
					require.Equal(t, at(3, 0), *ok.Parameters.LargestObject)
					src.group(4, 1)
					src.group(5, 1)
					require.Equal(t, "5.0, 5 fin", k.take())
					fetched := c.fetch(standalone(at(1, 1), at(2, 1)))
					require.Equal(t, "1.1, 1.2, unknown to 1.max, 2.0, fin", fetched.objects)
					_, err := c.TrackStatus(b.ctx, moqt.TrackStatus{Track: video})
					require.NoError(t, err)
					require.NoError(t, src.publication().Done(moqt.DoneTrackEnded, "over"))
					b.done(s, moqt.DoneTrackEnded)
				})
			})
		}
	}
}

// TestFill lets subscriptions ask for objects of the past.
func TestFill(t *testing.T) {
	relative := func(n uint64) *moqt.Parameters {
		return &moqt.Parameters{Filter: &moqt.Filter{Type: moqt.FilterRelativeStart, Groups: n}}
	}
	for name, tt := range map[string]struct {
		fill    *moqt.Parameters
		forward bool
		want    string
	}{
		"none":       {nil, true, ""},
		"this group": {relative(1), true, "fill (2.0, 2.1, unknown to 2.4, datagram 2.5, fin)"},
		"two groups": {relative(2), true,
			"fill (1.0, 1.1, 1.2, unknown to 1.max, 2.0, 2.1, unknown to 2.4, datagram 2.5, fin)"},
		"next group": {relative(0), true, ""},
		"the same":   {&moqt.Parameters{}, true, ""}, // nothing of the past passes the subscription's own filter
		"some objects": {&moqt.Parameters{Filter: &moqt.Filter{
			Type: moqt.FilterObjectRange, Start: at(1, 1), EndObject: 1,
		}}, true, "fill (1.1, fin)"},
		"not forwarded": {relative(1), false, ""},
	} {
		for _, v := range []moqt.Version{moqt.Draft20, moqt.Draft22} {
			t.Run(fmt.Sprint(v, " ", name), func(t *testing.T) {
				onBench(t, Config{}, func(b *bench) {
					src, open, _, _, _ := b.live(nil)
					k, s := b.speaks(v).mustSubscribe(moqt.Parameters{
						Filter: &moqt.Filter{Type: moqt.FilterLargestObject}, Fill: tt.fill, Forward: &tt.forward,
					})
					time.Sleep(fetch.ArrivalPause) // for objects 2 to 4, which may still come
					require.Equal(t, tt.want, k.take())
					ok := b.update(s, moqt.Parameters{Forward: new(true), Fill: relative(1)})
					require.Equal(t, at(2, 5), *ok.Parameters.LargestObject)
					time.Sleep(fetch.ArrivalPause)
					require.Equal(t, "fill (2.0, 2.1, unknown to 2.4, datagram 2.5, fin)", k.take())
					open.object(6)
					require.Equal(t, "2.6", k.take())
					open.fin()
					require.NoError(t, src.publication().Done(moqt.DoneTrackEnded, ""))
					streams := uint64(2)
					if tt.want != "" {
						streams++
					}
					require.Equal(t, streams, b.done(s, moqt.DoneTrackEnded).StreamCount, "fills count")
				})
			})
		}
	}
}

// TestFillsAreLimited checks that fills count as open FETCHes.
func TestFillsAreLimited(t *testing.T) {
	onBench(t, Config{Session: session.Config{Limits: session.Limits{MaxFetches: 2}}}, func(b *bench) {
		pub := b.connect()
		pub.serve(&source{largest: new(at(2, 0))})
		fetches := make(chan struct{}, 10)
		pub.handler.fetch = func(f *session.IncomingFetch) {
			fetches <- struct{}{}
			<-f.Context().Done()
		}
		pub.announce("live")
		c := b.speaks(moqt.Draft22)
		all := &moqt.Parameters{Filter: &moqt.Filter{}}
		_, s := c.mustSubscribe(moqt.Parameters{Filter: &moqt.Filter{Type: moqt.FilterLargestObject}, Fill: all})
		for range 2 {
			b.update(s, moqt.Parameters{Fill: all})
		}
		synctest.Wait()
		require.Len(t, fetches, 2)
		b.refused(c.fetch(standalone(at(1, 0), at(1, 1))).err, moqt.RequestExcessiveLoad)
		s.Cancel(moqt.ResetCancelled)
		synctest.Wait()
		b.refused(c.fetch(standalone(at(3, 0), at(3, 1))).err, moqt.RequestInvalidRange) // there is room again
	})
}

// TestSeveralSubscriptions lets a subscriber have two subscriptions to a track.
func TestSeveralSubscriptions(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src := b.origin(&source{})
		c := b.speaks(moqt.Draft19)
		k1, s1 := c.mustSubscribe(moqt.Parameters{})
		k2, s2 := c.mustSubscribe(moqt.Parameters{
			Filter: &moqt.Filter{Type: moqt.FilterAbsoluteStart, Start: at(2, 0)},
		})
		require.Len(t, src.pubs, 1, "the relay subscribes once")
		src.group(1, 1)
		src.group(2, 1)
		require.Equal(t, "1.0, 1 fin, 2.0, 2 fin", k1.take())
		require.Equal(t, "2.0, 2 fin", k2.take())
		s1.Cancel(moqt.ResetCancelled)
		src.group(3, 1)
		require.Equal(t, "3.0, 3 fin", k2.take())
		require.NoError(t, s2.Context().Err())

		old := b.speaks(moqt.Draft18)
		old.mustSubscribe(moqt.Parameters{})
		_, err := old.Subscribe(b.ctx, moqt.Subscribe{Track: video}, nil)
		require.ErrorIs(t, err, session.ErrDuplicate)
	})
}

// TestPropertiesOnRequest checks INCLUDE_PROPERTIES.
func TestPropertiesOnRequest(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		pub := b.connect()
		properties := propertiesOf(t, moqt.KeyValuePair{Type: moqt.PropertyMaxCacheDuration, Value: 60_000})
		src := pub.serve(&source{properties: properties})
		pub.announce("live")
		without := moqt.Parameters{IncludeProperties: new(false)}
		c := b.speaks(moqt.Draft22)
		_, s := c.mustSubscribe(without)
		require.Empty(t, s.Properties())
		status, err := c.TrackStatus(b.ctx, moqt.TrackStatus{Track: video, Parameters: without})
		require.NoError(t, err)
		require.Empty(t, status.Properties)
		src.group(1, 1)
		synctest.Wait()
		f, err := c.Fetch(b.ctx, moqt.Fetch{
			FetchType: moqt.FetchStandalone, Track: video, Start: at(1, 0), End: at(1, 1), Parameters: without,
		})
		require.NoError(t, err)
		ok, err := f.Wait(b.ctx)
		require.NoError(t, err)
		require.Empty(t, ok.Properties)
		_, other := b.speaks(moqt.Draft22).mustSubscribe(moqt.Parameters{})
		require.Equal(t, properties, other.Properties())
	})
}

// TestRelativeFetch asks for groups before the next one.
func TestRelativeFetch(t *testing.T) {
	for _, subscribed := range []bool{true, false} {
		onBench(t, Config{}, func(b *bench) {
			pub := b.connect()
			if subscribed {
				b.live(nil)
			} else {
				a := &archive{size: 2, largest: at(2, 1)}
				pub.handler.fetch = a.serve
				pub.handler.trackStatus = func(s *session.IncomingTrackStatus) {
					s.OK(moqt.Parameters{LargestObject: new(at(2, 1))}, nil)
				}
				pub.announce("live")
			}
			c := b.speaks(moqt.Draft20)
			got := c.fetch(moqt.Fetch{FetchType: moqt.FetchRelative, Track: video, JoiningStart: 1})
			require.NoError(t, got.err)
			require.Contains(t, got.objects, "2.0, 2.1")
			require.NotContains(t, got.objects, "1.0")
			b.refused(c.fetch(moqt.Fetch{FetchType: moqt.FetchRelative, Track: video}).err, moqt.RequestInvalidRange)
		})
	}
}

// TestTimeoutsOfSubgroups checks that the first object of a subgroup may have delivery timeouts, which apply instead of
// the track's. Before draft-20, timestamps have the number of one of them.
func TestTimeoutsOfSubgroups(t *testing.T) {
	timeouts := func(object, subgroup uint64) moqt.Properties {
		p := propertiesOf(t,
			moqt.KeyValuePair{Type: moqt.PropertyObjectDeliveryTimeout, Value: object},
			moqt.KeyValuePair{Type: moqt.PropertySubgroupDeliveryTimeout, Value: subgroup},
		)
		return p
	}
	in := func(object, subgroup time.Duration) media.Timeouts {
		return media.Timeouts{Object: object * time.Millisecond, Subgroup: subgroup * time.Millisecond}
	}
	for v, want := range map[moqt.Version][]media.Timeouts{
		moqt.Draft19: {in(60, 600), in(60, 600), in(60, 600)},
		moqt.Draft22: {in(50, 500), in(60, 600), in(60, 0)},
	} {
		onBench(t, Config{}, func(b *bench) {
			src := b.speaks(v).serve(&source{properties: timeouts(70, 600)})
			src.c.announce("live")
			subscriber := b.connect()
			_, s := subscriber.mustSubscribe(moqt.Parameters{ObjectDeliveryTimeout: new(uint64(60))})
			header := func(group uint64, first bool) *subgroupStream {
				return src.open(moqt.SubgroupHeader{GroupID: group, FirstObject: first, HasProperties: true})
			}
			open := header(1, true)
			open.write(moqt.ObjectHeader{Properties: timeouts(50, 500)}, "a")
			header(2, false).write(moqt.ObjectHeader{ObjectID: 7, Properties: timeouts(5, 5)}, "b")
			header(3, true).write(moqt.ObjectHeader{Properties: timeouts(0, 0)}, "c")
			open.write(moqt.ObjectHeader{ObjectID: 1, Properties: timeouts(1, 1)}, "d")
			out := subscriber.sender().subs[0]
			for i, timeouts := range want {
				require.Equal(t, timeouts, out.timeouts(i), "%s, group %d", v, i+1)
			}

			b.update(s, moqt.Parameters{ObjectDeliveryTimeout: new(uint64(40))})
			synctest.Wait()
			for i := range want {
				require.Equal(t, 40*time.Millisecond, out.timeouts(i).Object)
			}
		})
	}
}

// TestFillsOfOffers checks that the tracks which a SUBSCRIBE_TRACKS asks for come with the fills that it asks for.
func TestFillsOfOffers(t *testing.T) {
	for _, forward := range []bool{true, false} {
		onBench(t, Config{}, func(b *bench) {
			src := b.next(nil)
			src.group(1, 1)
			open := src.open(moqt.SubgroupHeader{GroupID: 2}).object(0).object(1)
			c, k := b.speaks(moqt.Draft22), &sink{}
			c.handler.publish = func(s *session.Subscription) {
				time.Sleep(time.Second) // the stream of the fill is there before the answer
				require.NoError(t, s.Accept(moqt.Parameters{}, k))
			}
			_, err := c.SubscribeTracks(b.ctx, moqt.SubscribeTracks{
				Prefix: moqt.Namespace{"live"},
				Parameters: moqt.Parameters{
					Filter: &moqt.Filter{Type: moqt.FilterLargestObject}, Forward: &forward,
					Fill: &moqt.Parameters{Filter: &moqt.Filter{Type: moqt.FilterRelativeStart, Groups: 1}},
				},
			}, nil)
			require.NoError(t, err)
			if !forward {
				time.Sleep(time.Second)
				require.Empty(t, k.take())
				return
			}
			require.Empty(t, k.take())
			time.Sleep(time.Second)
			require.Equal(t, "fill (2.0, 2.1, fin)", k.take())
			open.object(2)
			require.Equal(t, "2.2", k.take())
		})
	}
}
