package relay

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
)

// Group 2 has begun, and the streams of group 1 still arrive: of subgroup 0 with objects 0 and 2, of subgroup 1 with
// object 1. Their next objects are not missing, though the publisher serves no FETCH.
func TestFetchOfGroupsInArrival(t *testing.T) {
	whole := standalone(at(1, 0), at(1, 0))
	tests := map[string]struct {
		fetch  moqt.Fetch
		params moqt.Parameters
		arrive func(zero, one *subgroupStream)
		want   string
	}{
		"the end of the group": {
			whole, moqt.Parameters{},
			func(zero, one *subgroupStream) {
				one.object(3).fin()
				zero.object(4).fin()
			},
			"1.0, 1/1.1, 1.2, 1/1.3, 1.4, fin",
		},
		"slowly": {
			whole, moqt.Parameters{},
			func(zero, one *subgroupStream) {
				for o := range uint64(3) {
					time.Sleep(time.Second / 2)
					one.object(3 + 2*o)
					zero.object(4 + 2*o)
				}
				one.fin()
				zero.fin()
			},
			"1.0, 1/1.1, 1.2, 1/1.3, 1.4, 1/1.5, 1.6, 1/1.7, 1.8, fin",
		},
		"a hole": {
			standalone(at(1, 0), at(1, 5)), moqt.Parameters{},
			func(zero, one *subgroupStream) {
				zero.object(4)
				time.Sleep(time.Second / 2)
				one.object(3)
			},
			"1.0, 1/1.1, 1.2, 1/1.3, 1.4, fin",
		},
		"groups in descending order": {
			standalone(at(1, 0), at(2, 1)), moqt.Parameters{GroupOrder: new(moqt.Descending)},
			func(zero, one *subgroupStream) {
				one.object(3).fin()
				zero.object(4).fin()
			},
			"2.0, 1.0, 1/1.1, 1.2, 1/1.3, 1.4, fin",
		},
		"the streams skip an object": {
			standalone(at(1, 0), at(1, 6)), moqt.Parameters{},
			func(zero, one *subgroupStream) {
				zero.object(4)
				one.object(5)
			},
			"1.0, 1/1.1, 1.2, unknown to 1.3, 1.4, 1/1.5, fin",
		},
		"the streams end": {
			whole, moqt.Parameters{},
			func(zero, one *subgroupStream) {
				zero.reset(1)
				one.reset(1)
			},
			"1.0, 1/1.1, 1.2, unknown to 1.max, fin",
		},
		"nothing comes": {
			whole, moqt.Parameters{}, func(*subgroupStream, *subgroupStream) {},
			"1.0, 1/1.1, 1.2, unknown to 1.max, fin",
		},
		"the subscriber does not wait": {
			whole, moqt.Parameters{FillTimeout: new(uint64(0))},
			func(zero, one *subgroupStream) {
				one.object(3).fin()
				zero.object(4).fin()
			},
			"1.0, 1/1.1, 1.2, unknown to 1.max, fin",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			onBench(t, Config{}, func(b *bench) {
				src := b.next(nil)
				b.connect().mustSubscribe(moqt.Parameters{})
				zero := src.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true, EndOfGroup: true})
				one := src.open(moqt.SubgroupHeader{
					GroupID: 1, SubgroupIDMode: moqt.SubgroupIDPresent, SubgroupID: 1, FirstObject: true,
				})
				zero.object(0)
				one.object(1)
				zero.object(2)
				src.group(2, 1)
				c := b.connect()
				m := tt.fetch
				m.Parameters = tt.params
				f, err := c.Fetch(b.ctx, m)
				require.NoError(t, err)
				synctest.Wait()
				result := make(chan got, 1)
				go func() { result <- c.collect(f, m.Parameters.Order(moqt.Ascending)) }()
				time.Sleep(time.Second)
				tt.arrive(zero, one)
				require.Equal(t, tt.want, (<-result).objects)
			})
		})
	}
}

// The publisher answers that it does not know an object, which comes by subscription meanwhile.
func TestFetchOfWhatThePublisherDoesNotKnow(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src := b.next(nil)
		a := &archive{size: 0, largest: at(2, 0), delay: time.Second, mark: []moqt.FetchObject{
			{Kind: moqt.FetchKindUnknown, Location: at(1, moqt.MaxLocation.Object)},
		}}
		src.c.handler.fetch = a.serve
		b.connect().mustSubscribe(moqt.Parameters{})
		open := src.open(moqt.SubgroupHeader{GroupID: 1, EndOfGroup: true, FirstObject: true}).object(0)
		src.group(2, 1)
		c := b.connect()
		f, err := c.Fetch(b.ctx, standalone(at(1, 0), at(1, 0)))
		require.NoError(t, err)
		time.Sleep(1100 * time.Millisecond)
		open.object(1).fin()
		require.Equal(t, "1.0, 1.1, fin", c.collect(f, moqt.Ascending).objects)
		require.Len(t, a.requests, 1)
	})
}

// The relay has just subscribed, and the publisher, which serves no FETCH, sends its current group a moment later.
func TestFetchOfTheGroupThatThePublisherBeginsWith(t *testing.T) {
	for name, tt := range map[string]struct {
		comes bool
		want  string
	}{
		"it comes":         {true, "1.0, 1.1, fin"},
		"it does not come": {false, "unknown to 1.1, fin"},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, Config{}, func(b *bench) {
				pub := b.connect()
				src := pub.serve(&source{largest: new(at(1, 1))})
				pub.handler.fetch = func(f *session.IncomingFetch) {
					f.Reject(&moqt.RequestError{Code: moqt.RequestNotSupported})
				}
				pub.announce("live")
				c := b.connect()
				_, s := c.mustSubscribe(moqt.Parameters{Filter: &moqt.Filter{Type: moqt.FilterLargestObject}})
				f, err := c.Fetch(b.ctx, moqt.Fetch{FetchType: moqt.FetchRelativeJoining, JoiningRequestID: s.ID()})
				require.NoError(t, err)
				time.Sleep(time.Second)
				if tt.comes {
					src.group(1, 2)
				}
				require.Equal(t, tt.want, c.collect(f, moqt.Ascending).objects)
			})
		})
	}
}
