package relay

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

// A subscriber that joins after the upstream relay was lost gets what the relay holds of the group, and what follows
// when the track is there again.
func TestLateAfterACut(t *testing.T) {
	onBenches(t, Config{}, 2, func(bs []*bench) {
		us, sessions := bs[1].follow(bs[0])
		src := publishing["PUBLISH"](bs[0])
		early, _ := bs[1].connect().mustSubscribe(moqt.Parameters{})
		open := src.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(0).object(1)
		require.Equal(t, "1.0, 1.1", early.take())
		sessions[0].cut()
		time.Sleep(time.Second)
		waiting := bs[1].connect().awaitTrack()
		bs[1].dial(us[0], bs[0])
		time.Sleep(time.Second)
		late, _ := bs[1].connect().mustSubscribe(moqt.Parameters{})
		require.Equal(t, "1.0, 1.1", waiting.take())
		require.Equal(t, "1.0, 1.1", late.take())
		time.Sleep(20 * time.Second)
		open.object(2).fin()
		for name, k := range map[string]*sink{"early": early, "waiting": waiting, "late": late} {
			require.Equal(t, "1.2, 1 fin", k.take(), name)
			require.Len(t, k.headers, 1, "the stream that was there goes on")
		}
	})
}

// awaitTrack sends a SUBSCRIBE that waits for a publisher.
func (c *client) awaitTrack() *sink {
	k := &sink{layout: c.Version().DataLayout()}
	wait := moqt.Parameters{RendezvousTimeout: ptr(uint64(10_000))}
	_, err := c.Subscribe(c.b.ctx, moqt.Subscribe{Track: video, Parameters: wait}, k)
	require.NoError(c.b.t, err)
	synctest.Wait()
	return k
}

// A subscriber that joins after the publisher has reset a stream gets the objects that came before.
func TestLateAfterAReset(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src := publishing["PUBLISH"](b)
		early, _ := b.connect().mustSubscribe(moqt.Parameters{})
		g := src.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(0).object(1)
		require.Equal(t, "1.0, 1.1", early.take())
		g.reset(7)
		time.Sleep(time.Second)
		require.Equal(t, "1 reset 7", early.take())
		late, _ := b.connect().mustSubscribe(moqt.Parameters{})
		time.Sleep(time.Second)
		require.Equal(t, "1.0, 1.1, 1 reset 7", late.take())
		require.True(t, late.headers[0].FirstObject)
	})
}

// The streams of a publisher whose session is lost wait for it as long as the subscriptions do.
func TestCutStreams(t *testing.T) {
	for name, tt := range map[string]struct {
		largest *moqt.Location // of the publisher that comes back; nil: none does
		next    func(*source)
		want    string
	}{
		"the publisher goes on": {ptr(at(1, 1)), func(s *source) {
			s.open(moqt.SubgroupHeader{GroupID: 1}).object(2).fin()
		}, "1 fin, 1.2"},
		"it begins the group again": {ptr(at(1, 1)), func(s *source) { s.group(1, 4) }, "1 fin, 1.2, 1.3"},
		"it leaves objects out": {ptr(at(1, 1)), func(s *source) {
			s.open(moqt.SubgroupHeader{GroupID: 1}).object(3).fin()
		}, "1 fin, 1 reset 1, 1.3"},
		"it begins another group": {ptr(at(1, 1)), func(s *source) { s.group(2, 1) }, "1 reset 1, 2 fin, 2.0"},
		"it does not come":        {nil, func(*source) {}, "1 reset 1"},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, Config{Grace: 5 * time.Second}, func(b *bench) {
				old := publishing["PUBLISH"](b)
				k, sub := b.connect().mustSubscribe(moqt.Parameters{})
				old.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(0).object(1)
				require.Equal(t, "1.0, 1.1", k.take())
				old.c.Session.Close(moqt.SessionInternalError, "")
				time.Sleep(4 * time.Second)
				require.Empty(t, k.take())
				if tt.largest != nil {
					next := &source{}
					_, err := next.offer(b.connect(), moqt.Parameters{LargestObject: tt.largest})
					require.NoError(t, err)
					tt.next(next)
				}
				time.Sleep(2 * time.Second)
				require.Equal(t, tt.want, k.sorted())
				if tt.largest == nil {
					b.done(sub, moqt.DoneInternalError)
				} else {
					require.NoError(t, sub.Context().Err())
				}
			})
		})
	}
}

// A stream on which the fast path was ahead of a log that is cut ends; another one brings what follows in the log.
func TestStreamAheadOfACut(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		old := publishing["PUBLISH"](b)
		c := b.connect()
		k, _ := c.mustSubscribe(moqt.Parameters{})
		old.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(0).object(1)
		require.Equal(t, "1.0, 1.1", k.take())
		c.sender().ahead.Store(true)
		old.c.Session.Close(moqt.SessionInternalError, "")
		time.Sleep(time.Second)
		require.Equal(t, "1 reset 0", k.take())
		next := &source{}
		_, err := next.offer(b.connect(), moqt.Parameters{LargestObject: ptr(at(1, 1))})
		require.NoError(t, err)
		next.group(1, 4)
		require.Equal(t, "1.2, 1.3, 1 fin", k.take())
		require.Len(t, k.headers, 2)
	})
}

// A stream that began after a cut ends, as in TestStreamAheadOfACut. What follows has no objects before its first one.
func TestLateStreamAheadOfACut(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		old := publishing["PUBLISH"](b)
		b.connect().mustSubscribe(moqt.Parameters{})
		c := b.connect()
		k, s := c.mustSubscribe(moqt.Parameters{Forward: ptr(false)})
		old.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(0).object(1)
		synctest.Wait()
		old.c.Session.Close(moqt.SessionInternalError, "")
		time.Sleep(time.Second)
		next := b.next(ptr(at(1, 1)))
		open := next.open(moqt.SubgroupHeader{GroupID: 1}).object(2).object(3)
		synctest.Wait()
		_, err := s.Update(b.ctx, moqt.Parameters{Forward: ptr(true)})
		require.NoError(t, err)
		open.object(4)
		require.Equal(t, "1.4", k.take())
		c.sender().ahead.Store(true)
		open.object(5)
		got := strings.Split(k.take(), ", ") // of two streams, in any order; the reset may overtake its stream's 1.5
		require.Subset(t, got, []string{"1 reset 0", "1.4", "1.5"})
		require.NotContains(t, got, "1.2")
		require.NotContains(t, got, "1.3")
	})
}

// The subscription finishes while a stream that was ahead of a cut ends. Another one still brings the rest.
func TestFinishAheadOfACut(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		old := publishing["PUBLISH"](b)
		c := b.connect()
		k, s := c.mustSubscribe(moqt.Parameters{})
		old.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(0).object(1)
		require.Equal(t, "1.0, 1.1", k.take())
		c.sender().late = 10 * time.Second
		c.sender().ahead.Store(true)
		old.c.Session.Close(moqt.SessionInternalError, "")
		time.Sleep(time.Second)
		next := b.next(ptr(at(1, 1)))
		next.group(1, 4)
		synctest.Wait()
		require.NoError(t, next.publication().Done(moqt.DoneTrackEnded, ""))
		time.Sleep(time.Minute)
		require.Equal(t, "1 reset 0, 1.2, 1.3, 1 fin", k.take())
		b.done(s, moqt.DoneTrackEnded)
	})
}
