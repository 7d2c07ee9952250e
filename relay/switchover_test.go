package relay

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

func TestTwoPublishers(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		one, two := b.connect(), b.connect()
		first, second := one.serve(&source{}), two.serve(&source{})
		one.announce("live")
		two.announce("live", "room")
		k, _ := b.connect().mustSubscribe(moqt.Parameters{})
		require.Len(t, first.requests, 1)
		require.Len(t, second.requests, 1, "SUBSCRIBE goes to all matching publishers")
		for g := range uint64(3) {
			first.group(g, 2)
			second.group(g, 2)
		}
		require.Equal(t, "0.0, 0.1, 0 fin, 1.0, 1.1, 1 fin, 2.0, 2.1, 2 fin", k.take())
	})
}

func TestPublisherThatComesLaterIsSubscribedToo(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		one, two := b.connect(), b.connect()
		one.serve(&source{})
		one.announce("live")
		b.connect().mustSubscribe(moqt.Parameters{})
		second := two.serve(&source{})
		two.announce("live")
		synctest.Wait()
		require.Len(t, second.requests, 1)
	})
}

// A publisher moves to another session in the middle of a group (draft §9.5.1): subscribers see one stream.
func TestPublisherSwitchesSessions(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		old := &source{}
		_, err := old.offer(b.connect(), moqt.Parameters{})
		require.NoError(t, err)
		k, s := b.connect().mustSubscribe(moqt.Parameters{})
		before := old.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(0).object(1)

		moved := &source{}
		_, err = moved.offer(b.connect(), moqt.Parameters{LargestObject: &moqt.Location{Group: 1, Object: 1}})
		require.NoError(t, err)
		after := moved.open(moqt.SubgroupHeader{GroupID: 1}).object(1)
		before.object(2)
		after.object(2).object(3)
		require.Equal(t, "1.0, 1.1, 1.2", k.take(), "3 may come from the stream that is followed")
		old.c.Session.Close(moqt.SessionNoError, "")
		after.object(4).fin()
		moved.group(2, 1)
		require.Equal(t, "1.3, 1.4, 1 fin, 2.0, 2 fin", k.take())
		require.NoError(t, s.Context().Err())
	})
}

func TestSilentPublisherIsReplaced(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		one, two := &source{}, &source{}
		for _, src := range []*source{one, two} {
			_, err := src.offer(b.connect(), moqt.Parameters{})
			require.NoError(t, err)
		}
		k, _ := b.connect().mustSubscribe(moqt.Parameters{})
		one.open(moqt.SubgroupHeader{GroupID: 1}).object(0)
		two.group(1, 3)
		require.Equal(t, "1.0", k.take())
		time.Sleep(2 * time.Second)
		require.Equal(t, "1.1, 1.2, 1 fin", k.take())
	})
}

func TestMalformedTrack(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src := &source{}
		pub, err := src.offer(b.connect(), moqt.Parameters{})
		require.NoError(t, err)
		k, s := b.connect().mustSubscribe(moqt.Parameters{})
		open := src.open(moqt.SubgroupHeader{GroupID: 1}).object(0)
		end := moqt.ObjectHeader{ObjectID: 0, Status: moqt.StatusEndOfGroup}
		src.open(moqt.SubgroupHeader{GroupID: 2}).write(end, "").fin()
		src.open(moqt.SubgroupHeader{GroupID: 2, SubgroupIDMode: moqt.SubgroupIDPresent, SubgroupID: 1}).object(5)
		b.done(s, moqt.DoneMalformedTrack)
		require.Equal(t, "1.0, 2.0 end of group, 2 fin, 1 reset 18", k.take())
		require.Error(t, pub.Context().Err())
		require.NoError(t, src.c.Session.Context().Err(), "the session goes on")
		_ = open
	})
}

// Another peer publishes the same track, with other contents. Without authorization that is allowed, and does not
// disturb the first publisher.
func TestImpostor(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		first := &source{}
		_, err := first.offer(b.connect(), moqt.Parameters{})
		require.NoError(t, err)
		k, s := b.connect().mustSubscribe(moqt.Parameters{})
		first.group(1, 2)
		bad := &source{}
		_, err = bad.offer(b.connect(), moqt.Parameters{})
		require.NoError(t, err)
		forge := func() { bad.open(moqt.SubgroupHeader{GroupID: 1}).write(moqt.ObjectHeader{ObjectID: 0}, "forged") }
		forge() // it could be the first publisher, restarted
		for g := range uint64(3) {
			time.Sleep(time.Second)
			first.group(2+g, 1)
		}
		forge()
		require.Nil(t, bad.publication(), "the impostor is excluded")
		first.group(5, 1)
		require.Equal(t, "1.0, 1.1, 1 fin, 2.0, 2 fin, 3.0, 3 fin, 4.0, 4 fin, 5.0, 5 fin", k.take())
		require.NoError(t, s.Context().Err())
		_, err = bad.offer(bad.c, moqt.Parameters{})
		b.refused(err, moqt.RequestUninterested)
	})
}

func TestImpostorThatIsAhead(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		first, bad := &source{}, &source{}
		for _, src := range []*source{first, bad} {
			_, err := src.offer(b.connect(), moqt.Parameters{})
			require.NoError(t, err)
		}
		k, s := b.connect().mustSubscribe(moqt.Parameters{})
		end := moqt.ObjectHeader{ObjectID: 0, Status: moqt.StatusEndOfTrack}
		bad.open(moqt.SubgroupHeader{GroupID: 3}).write(end, "").fin()
		require.Equal(t, "3.0 end of track, 3 fin", k.take())
		first.open(moqt.SubgroupHeader{GroupID: 4}).object(0) // contradicts the end
		require.Nil(t, bad.publication())
		require.NotNil(t, first.publication())
		first.group(5, 1)
		require.Equal(t, "5.0, 5 fin", k.take())
		require.NoError(t, s.Context().Err())
	})
}

func TestProtocolViolationClosesThePublishersSessionOnly(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src := &source{}
		_, err := src.offer(b.connect(), moqt.Parameters{})
		require.NoError(t, err)
		k, s := b.connect().mustSubscribe(moqt.Parameters{})
		g := src.open(moqt.SubgroupHeader{GroupID: 1}).object(0)
		g.stream.Write([]byte{0, 0, 9}) // an unknown object status
		synctest.Wait()
		require.Error(t, src.c.Session.Context().Err())
		require.Equal(t, "1.0, 1 reset 1", k.take())
		require.NoError(t, s.Context().Err())
	})
}
