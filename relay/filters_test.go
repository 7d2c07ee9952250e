package relay

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"sluice/internal/metrictest"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport/transporttest"
)

// How many different Range Filters there may be for a track, and of one address.
const filtersOfTrack, filtersOfAddress = 32, 8

// filter returns a Range Filter with one range.
func filter(typ moqt.ParameterType, first, last uint64) moqt.RangeFilters {
	f := moqt.RangeFilter{Type: typ, Ranges: []moqt.ValueRange{{First: first, Last: last}}}
	if typ == moqt.ParameterObjectPropertyFilter || typ == moqt.ParameterTrackPropertyFilter {
		f.Property = marks
	}
	return moqt.RangeFilters{f}
}

// marks is a property of objects, and of tracks.
const marks = 0x100

func marked(t *testing.T, value uint64) moqt.Properties {
	return propertiesOf(t, moqt.KeyValuePair{Type: marks, Value: value})
}

// sendMixed sends a group with objects 0 to 4 in subgroup 0, of which 3 has the mark 7, objects 5 and 6 in subgroup 2,
// with another priority, and object 7 in a datagram.
func (s *source) sendMixed(group uint64) {
	t := s.c.b.t
	g := s.open(moqt.SubgroupHeader{GroupID: group, FirstObject: true, HasProperties: true, EndOfGroup: true})
	for id := range uint64(5) {
		h := moqt.ObjectHeader{ObjectID: id, Properties: marked(t, 6)}
		if id == 3 {
			h.Properties = marked(t, 7)
		}
		g.write(h, payload(id))
	}
	other := s.open(moqt.SubgroupHeader{
		GroupID: group, SubgroupIDMode: moqt.SubgroupIDPresent, SubgroupID: 2, Priority: 9, FirstObject: true,
	})
	other.object(5).object(6).fin()
	require.NoError(t, s.publication().SendDatagram(moqt.ObjectDatagram{
		Location: at(group, 7), Priority: 9, Payload: []byte("object 7"),
	}))
	synctest.Wait()
	g.object(8).fin()
}

// filtered is what passes filters of a group from sendMixed, in the order in which it comes.
var filtered = map[string]struct {
	filters moqt.RangeFilters
	want    string
	fetched string
}{
	"subgroup": {filter(moqt.ParameterSubgroupFilter, 1, 3),
		"%d/2.5, %[1]d/2.6, %[1]d/2 fin", "%d/2.5, %[1]d/2.6, fin"},
	"priority": {filter(moqt.ParameterPriorityFilter, 9, 9),
		"%d/2.5, %[1]d/2.6, %[1]d/2 fin, datagram %[1]d.7", "%d/2.5, %[1]d/2.6, datagram %[1]d.7, fin"},
	"ids": {filter(moqt.ParameterObjectIDFilter, 2, 5),
		"%d.2, %[1]d.3, %[1]d.4, %[1]d/2.5, %[1]d/2 fin, %[1]d fin", "%d.2, %[1]d.3, %[1]d.4, %[1]d/2.5, fin"},
	"marked": {filter(moqt.ParameterObjectPropertyFilter, 7, 8), "%d.3, %[1]d fin", "%d.3, fin"},
	"marked, or high ids": {
		append(filter(moqt.ParameterObjectPropertyFilter, 7, 8), moqt.RangeFilter{
			Type: moqt.ParameterObjectIDFilter, Set: 4, Ranges: []moqt.ValueRange{{First: 6, Last: math.MaxUint64}},
		}),
		"%d.3, %[1]d/2.6, %[1]d/2 fin, datagram %[1]d.7, %[1]d.8, %[1]d fin",
		"%d.3, %[1]d/2.6, datagram %[1]d.7, %[1]d.8, fin",
	},
	"nothing": {filter(moqt.ParameterObjectIDFilter, 100, 200), "", "fin"},
}

// TestRangeFilters subscribes with Range Filters, before and after the objects come, and fetches them.
func TestRangeFilters(t *testing.T) {
	for name, tt := range filtered {
		for _, v := range []moqt.Version{moqt.Draft19, moqt.Draft22} {
			t.Run(fmt.Sprint(name, " ", v), func(t *testing.T) {
				onBench(t, Config{}, func(b *bench) {
					src := b.origin(&source{})
					plain, _ := b.connect().mustSubscribe(moqt.Parameters{})
					c := b.speaks(v)
					k, s := c.mustSubscribe(moqt.Parameters{RangeFilters: tt.filters})
					src.sendMixed(1)
					require.Equal(t, "1.0, 1.1, 1.2, 1.3, 1.4, 1/2.5, 1/2.6, 1/2 fin, datagram 1.7, 1.8, 1 fin",
						plain.take())
					if tt.want == "" {
						require.Empty(t, k.take())
					} else {
						require.Equal(t, fmt.Sprintf(tt.want, 1), k.take())
					}
					for _, h := range k.headers {
						require.False(t, h.EndOfGroup && tt.want != "", "an object after it may have been left out")
					}
					require.NoError(t, s.Context().Err())
					f := standalone(at(1, 0), at(1, 9))
					f.Parameters.RangeFilters = tt.filters
					require.Equal(t, sprint(tt.fetched, 1), c.fetch(f).objects)
					require.Equal(t, 1.0, metrictest.Sum(t, b.relay, "sluice_relay_unforwarded_subscriptions_total"))
				})
			})
		}
	}
}

// sprint is Sprintf for a format that may use none of its arguments.
func sprint(format string, group uint64) string {
	if format == "fin" {
		return format
	}
	return fmt.Sprintf(format, group)
}

// TestTooManyRangeFilters checks that the different filters of a track's subscriptions are limited, in all and for each
// address, and that filters that a subscription has already can be used by others.
func TestTooManyRangeFilters(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		b.origin(&source{})
		with := func(n uint64) moqt.Parameters {
			return moqt.Parameters{RangeFilters: filter(moqt.ParameterObjectIDFilter, n, n)}
		}
		elsewhere := func(ip string) *client {
			return b.connectWith(transporttest.PipeConfig{Client: addressOf(ip), Protocol: moqt.Draft22.ALPN()})
		}
		c := b.speaks(moqt.Draft22)
		var subs []*session.Subscription
		for n := range uint64(filtersOfAddress) {
			_, s := c.mustSubscribe(with(n))
			subs = append(subs, s)
		}
		_, _, err := b.speaks(moqt.Draft22).subscribe(with(filtersOfAddress))
		b.refused(err, moqt.RequestExcessiveLoad)
		c.mustSubscribe(with(1))
		c.mustSubscribe(moqt.Parameters{})
		b.update(subs[0], with(filtersOfAddress))
		_, err = subs[1].Update(b.ctx, with(0)) // another one has those of 1
		b.refused(err, moqt.RequestExcessiveLoad)
		for n := range uint64(filtersOfTrack - filtersOfAddress) {
			elsewhere(fmt.Sprintf("192.0.2.%d", 1+n/filtersOfAddress)).mustSubscribe(with(100 + n))
		}
		_, _, err = elsewhere("198.51.100.1").subscribe(with(99))
		b.refused(err, moqt.RequestExcessiveLoad)
	})
}

// upTo returns the parameters of a subscription from a group's start to one of its objects.
func upTo(group, object uint64) moqt.Parameters {
	return moqt.Parameters{Filter: &moqt.Filter{Type: moqt.FilterObjectRange, Start: at(group, 0), EndObject: object}}
}

// TestTooManyEndsWithinGroups checks that the ends of ranges within groups count among the Range Filters, so that
// subscribers with many of them leave room for others.
func TestTooManyEndsWithinGroups(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		b.origin(&source{})
		c := b.speaks(moqt.Draft22)
		_, updated := c.mustSubscribe(moqt.Parameters{})
		var last *session.Subscription
		for n := range uint64(filtersOfAddress) {
			_, last = c.mustSubscribe(upTo(3, 1000+n))
		}
		c.mustSubscribe(upTo(3, 1000))
		_, _, err := c.subscribe(upTo(3, 2000))
		b.refused(err, moqt.RequestExcessiveLoad)
		b.update(updated, upTo(3, 1001))
		_, err = updated.Update(b.ctx, upTo(3, 2000))
		b.refused(err, moqt.RequestExcessiveLoad)
		b.update(last, moqt.Parameters{Filter: &moqt.Filter{Type: moqt.FilterNone}})
		c.mustSubscribe(upTo(3, 2000))
	})
}

// TestRangesOfUpdatesAreAdded checks that MAX_FILTER_RANGES limits what a subscription has after an update.
func TestRangesOfUpdatesAreAdded(t *testing.T) {
	onBench(t, Config{Session: session.Config{Limits: session.Limits{MaxFilterRanges: 1}}}, func(b *bench) {
		b.origin(&source{})
		c := b.speaks(moqt.Draft22)
		relay, err := c.Peer(b.ctx)
		require.NoError(t, err)
		require.EqualValues(t, 1, relay.MaxFilterRanges)
		_, s := c.mustSubscribe(moqt.Parameters{RangeFilters: filter(moqt.ParameterObjectIDFilter, 1, 2)})
		b.update(s, moqt.Parameters{RangeFilters: filter(moqt.ParameterObjectIDFilter, 2, 3)})
		_, err = s.Update(b.ctx, moqt.Parameters{RangeFilters: filter(moqt.ParameterSubgroupFilter, 0, 0)})
		b.refused(err, moqt.RequestInvalidFilter)
		b.done(s, moqt.DoneUpdateFailed)
	})
}

// TestOffersWithFilters checks that tracks are offered by their properties, and that their objects are filtered.
func TestOffersWithFilters(t *testing.T) {
	for _, v := range []moqt.Version{moqt.Draft19, moqt.Draft22} {
		for most, want := range map[uint64]string{6: "", 7: "1.1, 1 fin"} { // of the track's mark, which is 7
			onBench(t, Config{}, func(b *bench) {
				c, k := b.speaks(v), &sink{}
				offered := false
				c.handler.publish = func(s *session.Subscription) {
					offered = true
					require.NoError(t, s.Accept(moqt.Parameters{Forward: new(true)}, k))
				}
				filters := append(filter(moqt.ParameterObjectIDFilter, 1, 1),
					filter(moqt.ParameterTrackPropertyFilter, 5, most)...)
				_, err := c.SubscribeTracks(b.ctx, moqt.SubscribeTracks{
					Prefix: moqt.Namespace{"live"}, Parameters: moqt.Parameters{RangeFilters: filters},
				}, nil)
				require.NoError(t, err)
				src := &source{properties: marked(t, 7)}
				_, err = src.offer(b.connect(), moqt.Parameters{})
				require.NoError(t, err)
				require.Equal(t, want != "", offered)
				src.group(1, 3)
				require.Equal(t, want, k.take())
			})
		}
	}
}

// TestEndWithinAGroup lets subscriptions end at an object.
func TestEndWithinAGroup(t *testing.T) {
	upTo := func(group, object uint64) moqt.Parameters {
		return moqt.Parameters{Filter: &moqt.Filter{
			Type: moqt.FilterObjectRange, Start: at(1, 1), EndGroupDelta: group - 1, EndObject: object,
		}}
	}
	for _, v := range []moqt.Version{moqt.Draft20, moqt.Draft22} {
		onBench(t, Config{}, func(b *bench) {
			src := b.origin(&source{})
			c := b.speaks(v)
			k, s := c.mustSubscribe(upTo(2, 5))
			both := upTo(2, 5)
			both.RangeFilters = filter(moqt.ParameterObjectIDFilter, 2, 9)
			filtered, _ := c.mustSubscribe(both)
			src.sendMixed(1)
			require.Equal(t, "1.1, 1.2, 1.3, 1.4, 1/2.5, 1/2.6, 1/2 fin, datagram 1.7, 1.8, 1 fin", k.take())
			require.Equal(t, "1.2, 1.3, 1.4, 1/2.5, 1/2.6, 1/2 fin, datagram 1.7, 1.8, 1 fin", filtered.take())
			src.sendMixed(2)
			require.Equal(t, "2.0, 2.1, 2.2, 2.3, 2.4, 2/2.5, 2/2 fin, 2 fin", k.take())
			require.Equal(t, "2.2, 2.3, 2.4, 2/2.5, 2/2 fin, 2 fin", filtered.take())
			src.sendMixed(3)
			require.Empty(t, k.take())
			g := src.open(moqt.SubgroupHeader{GroupID: 4})
			b.update(s, upTo(4, 1))
			g.object(0).object(1)
			require.Equal(t, "4.0, 4.1", k.take())
			b.update(s, upTo(4, 3))
			require.Equal(t, fmt.Sprintf("4 reset %d", moqt.ResetCancelled), k.take())
			g.object(2).object(3).object(4).fin()
			require.Equal(t, "4.2, 4.3, 4 fin", k.take())
		})
	}
}
