package relay

import (
	"context"
	"fmt"
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

// A publisher moves to another session in the middle of a group (draft §9.5.1): subscribers see one stream.
func TestPublisherSwitchesSessions(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		old := b.next(nil)
		k, s := b.connect().mustSubscribe(moqt.Parameters{})
		before := old.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(0).object(1)

		moved := b.next(&moqt.Location{Group: 1, Object: 1})
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

// One of two publishers is gone in the middle of a group, and its session has not timed out yet: the other one's stream
// goes on in place of its stream.
func TestStreamOfAPublisherThatIsGoneIsReplaced(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		one, two := b.twoPublishers()
		k, _ := b.connect().mustSubscribe(moqt.Parameters{})
		one.open(moqt.SubgroupHeader{GroupID: 1}).object(0)
		two.group(1, 3)
		require.Equal(t, "1.0", k.take())
		one.c.conn.Vanish()
		time.Sleep(4 * time.Second)
		require.Equal(t, "1.1, 1.2, 1 fin", k.take())
	})
}

// One publisher pauses in the middle of a group while its session lives. Another one knows what it has sent, and sends
// other objects after that.
func TestStreamThatPausesIsNotTakenOver(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		one, bad := b.twoPublishers()
		k, s := b.connect().mustSubscribe(moqt.Parameters{})
		paused := one.open(moqt.SubgroupHeader{GroupID: 1}).object(0)
		bad.open(moqt.SubgroupHeader{GroupID: 1}).object(0).write(moqt.ObjectHeader{ObjectID: 1}, "forged")
		time.Sleep(10 * time.Second)
		require.Equal(t, "1.0", k.take())
		paused.object(1).fin()
		require.Equal(t, "1.1, 1 fin", k.take())
		require.NoError(t, context.Cause(s.Context()))
	})
}

// twoPublishers offers the same track in two sessions.
func (b *bench) twoPublishers() (one, two *source) {
	one, two = &source{}, &source{}
	for _, src := range []*source{one, two} {
		_, err := src.offer(b.connect(), moqt.Parameters{})
		require.NoError(b.t, err)
	}
	return one, two
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
		require.Equal(t, "1.0, 1 reset 18, 2.0 end of group, 2 fin", k.take())
		require.Error(t, pub.Context().Err())
		require.NoError(t, src.c.Session.Context().Err(), "the session goes on")
		_ = open
	})
}

// Another peer publishes the same track, with other contents. Without authorization that is allowed, and does not
// disturb the first publisher.
func TestImpostor(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		first := b.next(nil)
		k, s := b.connect().mustSubscribe(moqt.Parameters{})
		first.group(1, 2)
		bad := b.next(nil)
		bad.open(moqt.SubgroupHeader{GroupID: 1}).write(moqt.ObjectHeader{ObjectID: 0}, "forged")
		require.Nil(t, bad.publication(), "the impostor is excluded")
		for g := range uint64(3) {
			first.group(2+g, 1)
		}
		first.group(5, 1)
		require.Equal(t, "1.0, 1.1, 1 fin, 2.0, 2 fin, 3.0, 3 fin, 4.0, 4 fin, 5.0, 5 fin", k.take())
		require.NoError(t, s.Context().Err())
		_, err := bad.offer(bad.c, moqt.Parameters{})
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

// An impostor leaves objects behind that contradict those of the publisher. Whether it leaves before or after them, and
// whether its streams are whole or not, the track goes on.
func TestObjectsThatAnImpostorLeavesBehind(t *testing.T) {
	for name, leave := range map[string]func(*subgroupStream, *source){
		"stream open": func(_ *subgroupStream, bad *source) { bad.c.Session.Close(moqt.SessionNoError, "") },
		"stream complete": func(g *subgroupStream, bad *source) {
			g.fin()
			bad.c.Session.Close(moqt.SessionNoError, "")
		},
		"cancelled": func(g *subgroupStream, bad *source) {
			g.fin()
			bad.publication().Cancel(moqt.ResetCancelled)
		},
	} {
		for _, group := range []uint64{1, 2} { // beside the publisher's stream, and ahead of it
			t.Run(fmt.Sprint(name, " ", group), func(t *testing.T) {
				onBench(t, Config{}, func(b *bench) {
					first, bad := b.twoPublishers()
					k, s := b.connect().mustSubscribe(moqt.Parameters{})
					open := first.open(moqt.SubgroupHeader{GroupID: 1}).object(0)
					g := bad.open(moqt.SubgroupHeader{GroupID: group}).object(0)
					leave(g.write(moqt.ObjectHeader{ObjectID: 1}, "forged"), bad)
					synctest.Wait()
					open.object(1).fin()
					stopped := first.open(moqt.SubgroupHeader{GroupID: 2}).object(0)
					_, _ = stopped.stream.Write([]byte{0, 1, 'x'}) // the relay stops it when it sees the contradiction
					synctest.Wait()
					first.group(3, 1)
					require.Contains(t, k.take(), "3.0, 3 fin")
					require.NoError(t, context.Cause(s.Context()))
					require.NotNil(t, first.publication())
				})
			})
		}
	}
}

func TestProtocolViolationClosesThePublishersSessionOnly(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src := b.next(nil)
		k, s := b.connect().mustSubscribe(moqt.Parameters{})
		g := src.open(moqt.SubgroupHeader{GroupID: 1}).object(0)
		g.stream.Write([]byte{0, 0, 9}) // an unknown object status
		synctest.Wait()
		require.Error(t, src.c.Session.Context().Err())
		require.Equal(t, "1.0, 1 reset 1", k.take())
		require.NoError(t, s.Context().Err())
	})
}
