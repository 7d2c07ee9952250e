package relay

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

func TestForwardIsUpdated(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src := b.origin(&source{})
		b.connect().mustSubscribe(moqt.Parameters{})
		k, s := b.connect().mustSubscribe(moqt.Parameters{})
		g := src.open(moqt.SubgroupHeader{GroupID: 1}).object(0)
		b.update(s, moqt.Parameters{Forward: new(false)})
		require.Equal(t, "1.0, 1 reset 1", k.take(), "objects that are omitted need a reset")
		g.object(1)
		require.Empty(t, k.take())
		ok := b.update(s, moqt.Parameters{Forward: new(true)})
		require.Equal(t, moqt.Location{Group: 1, Object: 1}, *ok.Parameters.LargestObject)
		g.object(2).fin()
		require.Equal(t, "1.2, 1 fin", k.take())
	})
}

func TestFilterIsUpdated(t *testing.T) {
	at := func(group uint64) *moqt.Filter {
		return &moqt.Filter{Type: moqt.FilterAbsoluteRange, Start: moqt.Location{Group: group}}
	}
	onBench(t, Config{}, func(b *bench) {
		src := b.origin(&source{})
		k, s := b.connect().mustSubscribe(moqt.Parameters{Filter: at(1)})
		one := src.open(moqt.SubgroupHeader{GroupID: 1}).object(0)
		two := src.open(moqt.SubgroupHeader{GroupID: 2}).object(0)
		require.Equal(t, "1.0", k.take())
		ok := b.update(s, moqt.Parameters{Filter: at(2)})
		require.Equal(t, moqt.Location{Group: 2}, *ok.Parameters.LargestObject)
		synctest.Wait() // the answer comes before the effect
		one.object(1)
		two.object(1).fin()
		require.Equal(t, "1 reset 1, 2.1, 2 fin", k.take())
	})
}

// A subscriber gives a subgroup up, and wants it again before the media sender has reported that its stream has ended.
func TestSubgroupIsWantedAgain(t *testing.T) {
	from := func(group uint64) moqt.Parameters {
		return moqt.Parameters{Filter: &moqt.Filter{
			Type: moqt.FilterAbsoluteRange, Start: moqt.Location{Group: group}, EndGroupDelta: 5,
		}}
	}
	for name, updates := range map[string][]moqt.Parameters{
		"Forward": {{Forward: new(false)}, {Forward: new(true)}},
		"filter":  {from(2), from(1)},
		"three times": {
			{Forward: new(false)}, {Forward: new(true)}, {Forward: new(false)}, {Forward: new(true)}, from(2), from(1),
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, Config{}, func(b *bench) {
				src := b.next(nil)
				c := b.connect()
				c.sender().late = time.Second
				k, s := c.mustSubscribe(moqt.Parameters{})
				g := src.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(0)
				for _, u := range updates {
					b.update(s, u)
					synctest.Wait()
				}
				g.object(1).object(2).fin()
				require.Contains(t, k.take(), "1.1, 1.2, 1 fin")
				src.group(2, 1)
				require.Equal(t, "2.0, 2 fin", k.take())
				require.NoError(t, src.publication().Done(moqt.DoneTrackEnded, ""))
				done := b.done(s, moqt.DoneTrackEnded)
				require.EqualValues(t, len(k.headers), done.StreamCount, "all that the subscriber has got")
			})
		})
	}
}

// A subscriber wants a subgroup again. The stream that was stopped had objects that the relay does not have yet.
func TestWantedAgainBehindTheFastPath(t *testing.T) {
	size := len(payload(0)) + 2
	for name, tt := range map[string]struct {
		extra int // bytes
		want  string
	}{
		"an object":            {size, "1.3, 1.4, 1 fin"},
		"objects and a part":   {size + size/2, "1.3, 1.4, 1 fin"},
		"a part of an object":  {size / 2, "1.2, 1.3, 1.4, 1 fin"},
		"what is cut and sent": {2 * size, "1.2, 1.3, 1.4, 1 fin"},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			text := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			onBench(t, Config{Logger: text}, func(b *bench) {
				src := b.next(nil)
				c := b.connect()
				c.sender().extra.Store(int64(tt.extra))
				k, s := c.mustSubscribe(moqt.Parameters{})
				g := src.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(0).object(1)
				require.Equal(t, "1.0, 1.1", k.take())
				for _, forward := range []bool{false, true} {
					b.update(s, moqt.Parameters{Forward: new(forward)})
				}
				require.Equal(t, "1 reset 1", k.take())
				if tt.extra == 2*size {
					src.c.Session.Close(moqt.SessionInternalError, "")
					time.Sleep(time.Second)
					g = b.next(new(at(1, 1))).open(moqt.SubgroupHeader{GroupID: 1})
				}
				g.object(2).object(3).object(4).fin()
				require.Equal(t, tt.want, k.take())
				if tt.extra == 2*size {
					require.Contains(t, log.String(), fmt.Sprintf("objects.from=2 objects.sent=%d", tt.extra))
				}
			})
		})
	}
}

func TestUpdateThatFailsEndsTheSubscription(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src := b.origin(&source{})
		k, s := b.connect().mustSubscribe(moqt.Parameters{})
		src.open(moqt.SubgroupHeader{GroupID: 9}).object(0)
		_, err := s.Update(b.ctx, moqt.Parameters{Filter: &moqt.Filter{Type: moqt.FilterAbsoluteRange,
			Start: moqt.Location{Group: 3}}})
		b.refused(err, moqt.RequestInvalidRange)
		b.done(s, moqt.DoneUpdateFailed)
		require.Equal(t, "9.0, 9 reset 1", k.take())
	})
}

func TestStoppedSubgroupsAreNotSentAgain(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src := b.origin(&source{})
		other, _ := b.connect().mustSubscribe(moqt.Parameters{})
		c := b.connect()
		k := &stopper{}
		s, err := c.Subscribe(b.ctx, moqt.Subscribe{Track: video}, k)
		require.NoError(t, err)
		_, err = s.Wait(b.ctx)
		require.NoError(t, err)
		synctest.Wait()

		k.stop = true
		g := src.open(moqt.SubgroupHeader{GroupID: 1}).object(0)
		k.stop = false
		g.object(1).reset(7)
		src.open(moqt.SubgroupHeader{GroupID: 1}).object(2).fin()
		src.group(2, 1)
		require.Equal(t, "1.0, 1.1, 1 reset 7, 1.2, 1 fin, 2.0, 2 fin", other.take())
		require.Equal(t, "2.0, 2 fin", k.take())

		k.stop = true
		g = src.open(moqt.SubgroupHeader{GroupID: 3}).object(0)
		k.stop = false
		for _, forward := range []bool{false, true} {
			b.update(s, moqt.Parameters{Forward: &forward})
		}
		g.object(1)
		require.Equal(t, "3.1", k.take(), "the subscriber wants it again")
	})
}

// stopper is a sink that may refuse subgroups.
type stopper struct {
	sink
	stop bool
}

func (k *stopper) HandleSubgroup(g *session.Subgroup) {
	if k.stop {
		var r transport.ReceiveStream = g
		r.CancelRead(0)
		return
	}
	k.sink.HandleSubgroup(g)
}

func TestNewGroupRequest(t *testing.T) {
	dynamic := propertiesOf(t, moqt.KeyValuePair{Type: moqt.PropertyDynamicGroups, Value: 1})
	onBench(t, Config{}, func(b *bench) {
		src := b.origin(&source{properties: dynamic})
		requests := func() (values []uint64) {
			synctest.Wait()
			for _, u := range src.updates {
				values = append(values, *u.NewGroupRequest)
			}
			src.updates = nil
			return values
		}
		c := b.connect()
		_, s := c.mustSubscribe(moqt.Parameters{NewGroupRequest: new(uint64(0))})
		require.Equal(t, uint64(0), *src.requests[0].NewGroupRequest, "it goes with the SUBSCRIBE")
		ask := func(v uint64) {
			b.update(s, moqt.Parameters{NewGroupRequest: &v})
		}
		ask(0)
		require.Empty(t, requests(), "one is outstanding")
		ask(3)
		require.Equal(t, []uint64{3}, requests(), "a greater one is not")
		src.group(5, 1)
		ask(5)
		require.Empty(t, requests(), "group 5 is there")
		ask(6)
		require.Equal(t, []uint64{6}, requests())
		b.connect().mustSubscribe(moqt.Parameters{NewGroupRequest: new(uint64(4))})
		b.connect().mustSubscribe(moqt.Parameters{NewGroupRequest: new(uint64(6))})
		require.Empty(t, requests())
		src.group(6, 1)
		b.connect().mustSubscribe(moqt.Parameters{NewGroupRequest: new(uint64(0))})
		require.Equal(t, []uint64{0}, requests())
	})
}

func TestNewGroupRequestForStaticTracks(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src := b.origin(&source{})
		b.connect().mustSubscribe(moqt.Parameters{})
		b.connect().mustSubscribe(moqt.Parameters{NewGroupRequest: new(uint64(0))})
		require.Empty(t, src.updates)
	})
}
