package relay

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

// A relay upstream is replaced by another process, to which another publisher comes that does not say how far the track
// is: the first object does, and missed objects come from the old process.
func TestRefillBeforeTheFirstObject(t *testing.T) {
	onBenches(t, Config{}, 3, func(bs []*bench) {
		old, next, edge := bs[0], bs[1], bs[2]
		us, sessions := edge.follow(old)
		src := old.next(nil)
		k, _ := edge.connect().mustSubscribe(moqt.Parameters{})
		src.group(1, 1)
		sessions[0].cut()
		src.group(2, 2)
		require.NoError(t, src.publication().Done(moqt.DoneGoingAway, ""))
		link(old, next)
		publisher := next.next(nil)
		edge.dial(us[0], next)
		publisher.group(3, 1)
		require.Subset(t, strings.Split(k.take(), ", "), strings.Split("1.0, 1 fin, 2.0, 2.1, 3.0, 3 fin", ", "))
	})
}

// A subscription begins in a session that takes no requests any more. Missed objects are fetched in the next session.
func TestRefillInAnotherSession(t *testing.T) {
	onChain(t, 2, func(bs []*bench) {
		first := bs[0].next(nil)
		bs[0].connect().mustSubscribe(moqt.Parameters{}) // so that the published objects are known here
		us, sessions := bs[1].follow(bs[0])
		k, _ := bs[1].connect().mustSubscribe(moqt.Parameters{})
		first.group(1, 1)
		sessions[0].cut()
		first.group(2, 1)
		first.group(3, 1)
		require.NoError(t, first.publication().Done(moqt.DoneGoingAway, ""))
		leaving := bs[1].dial(us[0], bs[0])
		time.Sleep(time.Second)
		leaving.goaway(bs[0])
		bs[1].dial(us[0], bs[0])
		bs[0].next(new(at(3, 0))).group(4, 1)
		require.Subset(t, strings.Split(k.take(), ", "), strings.Split("1.0, 1 fin, 2.0, 3.0, 4.0, 4 fin", ", "))
	})
}

// A session is lost while a stream is on its way, and a later group has come. Nothing says that the group lacks the
// stream, but it has got objects just before.
func TestRefillOfWhatWasOnItsWay(t *testing.T) {
	onChain(t, 2, func(bs []*bench) {
		first := bs[0].next(nil)
		us, sessions := bs[1].follow(bs[0])
		k, _ := bs[1].connect().mustSubscribe(moqt.Parameters{})
		first.group(1, 1)
		first.group(2, 1)
		sessions[0].cut()
		h := moqt.SubgroupHeader{GroupID: 1, SubgroupIDMode: moqt.SubgroupIDPresent, SubgroupID: 1, FirstObject: true}
		first.open(h).object(1).fin()
		first.group(3, 1)
		bs[1].dial(us[0], bs[0])
		require.Contains(t, strings.Split(k.take(), ", "), "1/1.1")
	})
}

// Nobody was subscribed while groups came. They are not missed by those who subscribe later: to fetch them would delay
// what is.
func TestRefillBeginsWithItsSubscribers(t *testing.T) {
	onChain(t, 2, func(bs []*bench) {
		first := bs[0].next(nil)
		us, sessions := bs[1].follow(bs[0])
		bs[0].connect().mustSubscribe(moqt.Parameters{})
		_, sub := bs[1].connect().mustSubscribe(moqt.Parameters{})
		first.group(1, 1)
		sub.Cancel(moqt.ResetCancelled)
		time.Sleep(5 * time.Second) // the relay has ended its subscription, and has the group
		first.group(2, 1)
		first.group(3, 1)
		k, _ := bs[1].connect().mustSubscribe(moqt.Parameters{})
		first.group(4, 1)
		sessions[0].cut()
		first.group(5, 1)
		first.group(6, 1)
		bs[1].dial(us[0], bs[0])
		got := k.take()
		require.Contains(t, got, "5.0")
		require.NotContains(t, got, "2.0")
	})
}

// A relay moves to another session while the one before, which lags behind, still brings the track. When that is not
// needed any more, the relay fetches what it has not brought.
func TestRefillAfterAMove(t *testing.T) {
	onBenches(t, Config{}, 3, func(bs []*bench) {
		old, next, edge := bs[0], bs[1], bs[2]
		us, _ := edge.follow(old)
		slow, fast := old.next(nil), next.next(nil)
		k, _ := edge.connect().mustSubscribe(moqt.Parameters{})
		next.connect().mustSubscribe(moqt.Parameters{})
		slow.group(1, 1)
		for group := range uint64(3) {
			fast.group(1+group, 1)
		}
		edge.dial(us[0], next)
		time.Sleep(time.Minute)
		require.Subset(t, strings.Split(k.take(), ", "), strings.Split("1.0, 1 fin, 2.0, 3.0, 3 fin", ", "))
	})
}

// A relay moves to a session whose publisher does not say how far the track is, while the one before still brings it.
// The first object says what that one has not brought.
func TestRefillAfterAMoveWithoutLargestObject(t *testing.T) {
	onBenches(t, Config{}, 3, func(bs []*bench) {
		old, next, edge := bs[0], bs[1], bs[2]
		us, _ := edge.follow(old)
		slow, fast := old.next(nil), publishing["PUBLISH_NAMESPACE"](next)
		fast.c.handler.fetch = (&archive{size: 1, largest: at(3, 0), flat: true}).serve
		k, _ := edge.connect().mustSubscribe(moqt.Parameters{})
		slow.group(1, 1)
		edge.dial(us[0], next)
		fast.group(4, 1)
		time.Sleep(time.Minute)
		require.Subset(t, strings.Split(k.take(), ", "), strings.Split("1.0, 1 fin, 2.0, 3.0, 4.0, 4 fin", ", "))
	})
}

// A publisher is restarted while a relay has no session: its groups count from another time. The relay fetches both
// ends of what it has missed.
func TestRefillOfTwoLives(t *testing.T) {
	onChain(t, 2, func(bs []*bench) {
		first := bs[0].next(nil)
		us, sessions := bs[1].follow(bs[0])
		k, _ := bs[1].connect().mustSubscribe(moqt.Parameters{})
		first.group(1, 1)
		sessions[0].cut()
		first.group(2, 1)
		require.NoError(t, first.c.conn.CloseWithError(0, ""))
		next := bs[0].next(nil)
		next.group(10_002, 1)
		next.group(10_003, 1)
		bs[1].dial(us[0], bs[0])
		time.Sleep(10 * time.Second)
		require.Subset(t, strings.Split(k.take(), ", "), strings.Split("1.0, 1 fin, 2.0, 10002.0, 10003.0", ", "))
	})
}
