package relay

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/media"
	"sluice/moqt"
	"sluice/moqt/session"
)

func TestUpstreamIsReleasedAfterTheLastSubscriber(t *testing.T) {
	onBench(t, Config{Linger: 3 * time.Second}, func(b *bench) {
		pub, one, two := b.connect(), b.connect(), b.connect()
		src := pub.serve(&source{})
		pub.announce("live")
		_, s1 := one.mustSubscribe(moqt.Parameters{})
		_, s2 := two.mustSubscribe(moqt.Parameters{})
		s1.Cancel(moqt.ResetCancelled)
		time.Sleep(10 * time.Second)
		require.NotNil(t, src.publication())
		s2.Cancel(moqt.ResetCancelled)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.NotNil(t, src.publication(), "it lingers")
		_, s2 = two.mustSubscribe(moqt.Parameters{})
		time.Sleep(10 * time.Second)
		require.Len(t, src.requests, 1, "and serves a subscriber that comes back")
		s2.Cancel(moqt.ResetCancelled)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Nil(t, src.publication())
	})
}

func TestRendezvousIsLimited(t *testing.T) {
	onBench(t, Config{MaxRendezvous: 5 * time.Second}, func(b *bench) {
		start := time.Now()
		_, _, err := b.connect().subscribe(moqt.Parameters{RendezvousTimeout: new(uint64(60_000))})
		b.refused(err, moqt.RequestTimeout)
		require.Equal(t, 5*time.Second, time.Since(start))
	})
}

func TestRendezvous(t *testing.T) {
	for name, appear := range map[string]func(*client, *source){
		"by PUBLISH_NAMESPACE": func(c *client, s *source) { c.serve(s); c.announce("live") },
		"by PUBLISH": func(c *client, s *source) {
			_, err := s.offer(c, moqt.Parameters{})
			require.NoError(c.b.t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, Config{}, func(b *bench) {
				c := b.connect()
				k := &sink{}
				s, err := c.Subscribe(b.ctx,
					moqt.Subscribe{Track: video, Parameters: moqt.Parameters{RendezvousTimeout: new(uint64(9000))}}, k)
				require.NoError(t, err)
				time.Sleep(5 * time.Second)
				src := &source{}
				appear(b.connect(), src)
				_, err = s.Wait(b.ctx)
				require.NoError(t, err)
				synctest.Wait()
				src.group(0, 1)
				require.Equal(t, "0.0, 0 fin", k.take())
				time.Sleep(10 * time.Second)
				require.NoError(t, s.Context().Err())
			})
		})
	}
}

func TestOnePublisherOfTwoRefuses(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		bad, good := b.connect(), b.connect()
		bad.handler.subscribe = func(p *session.Publication) {
			p.Reject(&moqt.RequestError{Code: moqt.RequestDoesNotExist})
		}
		bad.announce("live")
		src := good.serve(&source{})
		good.announce("live")
		k, _ := b.connect().mustSubscribe(moqt.Parameters{})
		src.group(0, 1)
		require.Equal(t, "0.0, 0 fin", k.take())
	})
}

func TestMandatoryTrackPropertiesAreNotForwarded(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		pub := b.connect()
		props := propertiesOf(t, moqt.KeyValuePair{Type: 0x4001, Bytes: []byte("x")})
		pub.serve(&source{properties: props})
		pub.announce("live")
		_, _, err := b.connect().subscribe(moqt.Parameters{})
		b.refused(err, moqt.RequestUnsupportedExtension)

		_, err = (&source{properties: props}).offer(b.connect(), moqt.Parameters{})
		b.refused(err, moqt.RequestUnsupportedExtension)
	})
}

func TestFilters(t *testing.T) {
	// The publisher has sent group 5 with objects 0 to 2, and group 6, still open, with object 0. It goes on with 6.1
	// and 6.2, a late 5/1.3, and 7.0.
	tests := map[string]struct {
		filter *moqt.Filter
		want   string
	}{
		"none": {nil, "5/1.3, 5/1 fin, 6.0, 6.1, 6.2, 6 fin, 7.0, 7 fin"}, // the current group from its start
		"equivalent to none": {&moqt.Filter{Type: moqt.FilterAbsoluteStart},
			"5/1.3, 5/1 fin, 6.0, 6.1, 6.2, 6 fin, 7.0, 7 fin"},
		"largest object": {&moqt.Filter{Type: moqt.FilterLargestObject}, "6.1, 6.2, 6 fin, 7.0, 7 fin"},
		"next group":     {&moqt.Filter{Type: moqt.FilterRelativeStart}, "7.0, 7 fin"},
		"absolute, past": {&moqt.Filter{Type: moqt.FilterAbsoluteStart, Start: moqt.Location{Group: 5, Object: 1}},
			"5/1.3, 5/1 fin, 6.1, 6.2, 6 fin, 7.0, 7 fin"},
		"absolute, within": {&moqt.Filter{Type: moqt.FilterAbsoluteStart, Start: moqt.Location{Group: 6, Object: 2}},
			"6.2, 6 fin, 7.0, 7 fin"},
		"absolute, future": {&moqt.Filter{Type: moqt.FilterAbsoluteStart, Start: moqt.Location{Group: 7}},
			"7.0, 7 fin"},
		"range": {&moqt.Filter{Type: moqt.FilterAbsoluteRange, Start: moqt.Location{Group: 5},
			EndGroupDelta: 1}, "5/1.3, 5/1 fin, 6.1, 6.2, 6 fin"},
		"rest of this group": {&moqt.Filter{Type: moqt.FilterAbsoluteRange, Start: moqt.Location{Group: 6, Object: 2}},
			"6.2, 6 fin"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			onBench(t, Config{}, func(b *bench) {
				src := b.origin(&source{})
				b.connect().mustSubscribe(moqt.Parameters{})
				src.group(5, 3)
				g := src.open(moqt.SubgroupHeader{GroupID: 6}).object(0)
				k, s := b.connect().mustSubscribe(moqt.Parameters{Filter: tt.filter})
				ok, err := s.Wait(b.ctx)
				require.NoError(t, err)
				require.Equal(t, moqt.Location{Group: 6}, *ok.Parameters.LargestObject)
				if !strings.Contains(tt.want, "6.0") {
					require.Empty(t, k.take(), "objects of the past are for FETCH")
				}
				g.object(1).object(2).fin()
				h := moqt.SubgroupHeader{GroupID: 5, SubgroupIDMode: moqt.SubgroupIDPresent, SubgroupID: 1}
				src.open(h).object(3).fin()
				src.group(7, 1)
				require.Equal(t, tt.want, k.take())
			})
		})
	}
}

// A catalog is published once. Each subscriber gets it, however late, even if the publisher serves no FETCH.
func TestLateSubscribersGetTheCurrentGroup(t *testing.T) {
	onBench(t, Config{Linger: time.Second}, func(b *bench) {
		src := b.origin(&source{})
		first, s := b.connect().mustSubscribe(moqt.Parameters{})
		src.group(0, 1)
		require.Equal(t, "0.0, 0 fin", first.take())
		time.Sleep(time.Hour)
		late, sl := b.connect().mustSubscribe(moqt.Parameters{})
		require.Equal(t, "0.0, 0 fin", late.take())

		// All leave. The publisher sends it again for the next subscriber, and the relay must pass it on.
		s.Cancel(moqt.ResetCancelled)
		sl.Cancel(moqt.ResetCancelled)
		for _, wait := range []time.Duration{5 * time.Second, 40 * time.Second, time.Hour} {
			time.Sleep(wait)
			src.largest = &moqt.Location{}
			again, s := b.connect().mustSubscribe(moqt.Parameters{})
			src.group(0, 1)
			require.Equal(t, "0.0, 0 fin", again.take(), wait)
			s.Cancel(moqt.ResetCancelled)
		}
	})
}

// A publisher was killed and restarted, and its first session has not timed out yet.
func TestRestartedPublisherWhoseSessionIsStillThere(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		before := b.next(nil)
		k, s := b.connect().mustSubscribe(moqt.Parameters{})
		for g := range uint64(3) {
			before.group(g, 1)
			time.Sleep(time.Second)
		}
		require.Equal(t, "0.0, 0 fin, 1.0, 1 fin, 2.0, 2 fin", k.take())
		before.c.conn.Vanish()
		after := b.next(nil)
		for g := range uint64(5) { // contradicting cached objects
			after.open(moqt.SubgroupHeader{GroupID: g}).write(moqt.ObjectHeader{}, "new").fin()
			time.Sleep(time.Second)
			synctest.Wait() // streams have no order among each other
		}
		got := strings.Split(k.take(), ", ")
		slices.Sort(got)
		require.Equal(t, "0 fin, 0.0=new, 1 fin, 1.0=new, 2 fin, 2.0=new, 3 fin, 3.0=new, 4 fin, 4.0=new",
			strings.Join(got, ", "), "nothing of what it sends while the relay waits is lost")
		require.NoError(t, s.Context().Err())
		require.Zero(t, b.relay.Sessions()[0].Publications, "the one that is gone")
	})
}

func TestLateJoinersGetWholeObjects(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src := b.origin(&source{})
		first, _ := b.connect().mustSubscribe(moqt.Parameters{})
		h := moqt.SubgroupHeader{GroupID: 1, SubgroupIDMode: moqt.SubgroupIDFirstObject, FirstObject: true,
			EndOfGroup: true, HasProperties: true, Priority: 9}
		g := src.open(h).object(300).half(301)
		late, _ := b.connect().mustSubscribe(moqt.Parameters{Filter: &moqt.Filter{Type: moqt.FilterLargestObject}})
		g.stream.Write([]byte(" and"))
		g.object(307).object(308).fin()
		require.Equal(t, "1/300.300, 1/300.301=half and, 1/300.307, 1/300.308, 1/300 fin", first.take())
		require.Equal(t, "1/300.307, 1/300.308, 1/300 fin", late.take())
		want := moqt.SubgroupHeader{
			TrackAlias: late.headers[0].TrackAlias, GroupID: 1, SubgroupIDMode: moqt.SubgroupIDPresent, SubgroupID: 300,
			EndOfGroup: true, HasProperties: true, Priority: 9,
		}
		require.Equal(t, want, late.headers[0])
		want.FirstObject = true
		want.TrackAlias = first.headers[0].TrackAlias
		require.Equal(t, want, first.headers[0])
	})
}

func TestDatagrams(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src := b.origin(&source{})
		k, _ := b.connect().mustSubscribe(moqt.Parameters{})
		later, _ := b.connect().mustSubscribe(moqt.Parameters{Filter: &moqt.Filter{Type: moqt.FilterAbsoluteStart,
			Start: moqt.Location{Group: 1, Object: 1}}})
		paused, _ := b.connect().mustSubscribe(moqt.Parameters{Forward: new(false)})
		for _, id := range []uint64{0, 2, 0, 1} {
			require.NoError(t, src.publication().SendDatagram(moqt.ObjectDatagram{
				Location: at(1, id), Payload: []byte("x"), Priority: 3,
			}))
			synctest.Wait()
		}
		require.Equal(t, "datagram 1.0, datagram 1.2, datagram 1.1", k.take())
		require.Equal(t, "datagram 1.2, datagram 1.1", later.take())
		require.Empty(t, paused.take())
	})
}

func TestSelfSubscription(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		c := b.connect()
		src := c.serve(&source{})
		c.announce("live")
		k, _ := c.mustSubscribe(moqt.Parameters{})
		src.group(1, 1)
		require.Equal(t, "1.0, 1 fin", k.take())
	})
}

func TestPrioritiesAndTimeouts(t *testing.T) {
	track := propertiesOf(t,
		moqt.KeyValuePair{Type: moqt.PropertyObjectDeliveryTimeout, Value: 700},
		moqt.KeyValuePair{Type: moqt.PropertySubgroupDeliveryTimeout, Value: 900},
		moqt.KeyValuePair{Type: moqt.PropertyDefaultPublisherPriority, Value: 33},
		moqt.KeyValuePair{Type: moqt.PropertyDefaultPublisherGroupOrder, Value: uint64(moqt.Descending)},
	)
	cached := propertiesOf(t, moqt.KeyValuePair{Type: moqt.PropertyMaxCacheDuration, Value: 500})
	tests := map[string]struct {
		properties       moqt.Properties
		params           moqt.Parameters
		priority         uint8
		descending       bool
		object, subgroup time.Duration
	}{
		"defaults":    {nil, moqt.Parameters{}, 128, false, 0, 0},
		"publisher's": {track, moqt.Parameters{}, 128, true, 700 * time.Millisecond, 900 * time.Millisecond},
		"subscriber's": {nil, moqt.Parameters{SubscriberPriority: new(uint8(3)), GroupOrder: new(moqt.Descending),
			ObjectDeliveryTimeout: new(uint64(50))}, 3, true, 50 * time.Millisecond, 0},
		"the shorter, each": {track, moqt.Parameters{ObjectDeliveryTimeout: new(uint64(50)),
			SubgroupDeliveryTimeout: new(uint64(5000)),
			GroupOrder:              new(moqt.Ascending)}, 128, false, 50 * time.Millisecond, 900 * time.Millisecond},
		"0 is no timeout": {track, moqt.Parameters{ObjectDeliveryTimeout: new(uint64(0))}, 128, true,
			700 * time.Millisecond, 900 * time.Millisecond},
		"MAX_CACHE_DURATION": {cached, moqt.Parameters{}, 128, false, 500 * time.Millisecond, 0},
		"shorter than it": {cached, moqt.Parameters{ObjectDeliveryTimeout: new(uint64(100))}, 128, false,
			100 * time.Millisecond, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			onBench(t, Config{}, func(b *bench) {
				pub, sub := b.connect(), b.connect()
				src := pub.serve(&source{properties: tt.properties})
				pub.announce("live")
				_, s := sub.mustSubscribe(tt.params)
				require.Nil(t, src.requests[0].SubscriberPriority, "upstream the subscribers' wishes do not count")
				require.Nil(t, src.requests[0].GroupOrder)
				require.Nil(t, src.requests[0].ObjectDeliveryTimeout)
				out := sub.sender().subs[0]
				require.Equal(t, []any{tt.priority, tt.descending}, []any{out.cfg.Priority, out.cfg.Descending})
				src.open(moqt.SubgroupHeader{GroupID: 1, DefaultPriority: true}).object(0).fin()
				src.open(moqt.SubgroupHeader{GroupID: 2, Priority: 4}).object(0).fin()
				require.Equal(t, tt.properties.DefaultPublisherPriority(), out.opened[0].Priority)
				require.Equal(t, uint8(4), out.opened[1].Priority)
				for i := range 2 {
					require.Equal(t, media.Timeouts{Object: tt.object, Subgroup: tt.subgroup}, out.timeouts(i))
				}

				_, err := s.Update(b.ctx,
					moqt.Parameters{SubscriberPriority: new(uint8(200)), ObjectDeliveryTimeout: new(uint64(10))})
				require.NoError(t, err)
				synctest.Wait()
				require.Equal(t, uint8(200), out.cfg.Priority)
				require.Equal(t, 10*time.Millisecond, out.timeouts(0).Object)
			})
		})
	}
}
