package relay

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

// A subscriber that joins after the publisher has reset a stream gets the objects that came before.
func TestLateAfterAReset(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src := b.next(nil)
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
		"the publisher goes on": {new(at(1, 1)), func(s *source) {
			s.open(moqt.SubgroupHeader{GroupID: 1}).object(2).fin()
		}, "1 fin, 1.2"},
		"it begins the group again": {new(at(1, 1)), func(s *source) { s.group(1, 4) }, "1 fin, 1.2, 1.3"},
		"it leaves objects out": {new(at(1, 1)), func(s *source) {
			s.open(moqt.SubgroupHeader{GroupID: 1}).object(3).fin()
		}, "1 fin, 1 reset 1, 1.3"},
		"it begins another group": {new(at(1, 1)), func(s *source) { s.group(2, 1) }, "1 reset 1, 2 fin, 2.0"},
		"it does not come":        {nil, func(*source) {}, "1 reset 1"},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, Config{Grace: 5 * time.Second}, func(b *bench) {
				old := b.next(nil)
				k, sub := b.connect().mustSubscribe(moqt.Parameters{})
				old.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(0).object(1)
				require.Equal(t, "1.0, 1.1", k.take())
				old.c.Session.Close(moqt.SessionInternalError, "")
				time.Sleep(4 * time.Second)
				require.Empty(t, k.take())
				if tt.largest != nil {
					next := b.next(tt.largest)
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
		old := b.next(nil)
		c := b.connect()
		k, _ := c.mustSubscribe(moqt.Parameters{})
		old.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(0).object(1)
		require.Equal(t, "1.0, 1.1", k.take())
		c.sender().ahead.Store(true)
		old.c.Session.Close(moqt.SessionInternalError, "")
		time.Sleep(time.Second)
		require.Equal(t, "1 reset 0", k.take())
		next := b.next(new(at(1, 1)))
		next.group(1, 4)
		require.Equal(t, "1.2, 1.3, 1 fin", k.take())
		require.Len(t, k.headers, 2)
	})
}

// The subscription finishes while a stream that was ahead of a cut ends. Another one still brings the rest.
func TestFinishAheadOfACut(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		old := b.next(nil)
		c := b.connect()
		k, s := c.mustSubscribe(moqt.Parameters{})
		old.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(0).object(1)
		require.Equal(t, "1.0, 1.1", k.take())
		c.sender().late = 10 * time.Second
		c.sender().ahead.Store(true)
		old.c.Session.Close(moqt.SessionInternalError, "")
		time.Sleep(time.Second)
		next := b.next(new(at(1, 1)))
		next.group(1, 4)
		synctest.Wait()
		require.NoError(t, next.publication().Done(moqt.DoneTrackEnded, ""))
		time.Sleep(time.Minute)
		require.Equal(t, "1 reset 0, 1.2, 1.3, 1 fin", k.take())
		b.done(s, moqt.DoneTrackEnded)
	})
}

// The fast path has sent the end of a subgroup, which the relay does not have when it loses the publisher. Another
// publisher brings that again, and the subscriber has it.
func TestDeliveredAheadOfTheLog(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src, c := b.next(nil), b.connect()
		c.sender().whole.Store(true)
		k, _ := c.mustSubscribe(moqt.Parameters{})
		src.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(0)
		src.group(2, 1)
		require.Equal(t, "1.0, 1 fin, 2.0, 2 fin", k.take())
		src.c.Session.Close(moqt.SessionInternalError, "")
		time.Sleep(time.Second) // nobody goes on with the log
		next := b.next(new(at(2, 0)))
		next.open(moqt.SubgroupHeader{GroupID: 1}).object(1).fin()
		next.group(3, 1)
		require.Equal(t, "3.0, 3 fin", k.take())
	})
}

// The fast path has sent the end of a subgroup before user space has it. What precedes that comes on another stream.
func TestDeliveredAheadOfTheBeginning(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src, c := b.next(nil), b.connect()
		c.sender().whole.Store(true)
		k, _ := c.mustSubscribe(moqt.Parameters{})
		end := src.open(moqt.SubgroupHeader{GroupID: 1}).object(2)
		src.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(0).object(1)
		require.Equal(t, "1.2, 1 fin", k.take())
		c.sender().whole.Store(false)
		end.fin()
		require.Equal(t, "1.0, 1.1", k.take())
	})
}
