package relay

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/relay/internal/charge"
	"sluice/transport"
)

func guestFrom(ip string, a Action, tokens ...string) AuthRequest {
	cfg := AuthRequest{
		Kind: transport.RTSP, Remote: addressOf(ip), Authority: "relay.example", Path: "/", Action: a,
		Namespace: moqt.Namespace{"live", "room"}, Name: "video",
	}
	for _, t := range tokens {
		cfg.Tokens = append(cfg.Tokens, token(t))
	}
	return cfg
}

func (b *bench) admit(cfg AuthRequest) *Guest {
	b.t.Helper()
	g, err := b.relay.Admit(b.ctx, cfg)
	require.NoError(b.t, err)
	return g
}

// TestGuestsAreSessions checks that a guest takes a session of its address and one of all, and gives both back.
func TestGuestsAreSessions(t *testing.T) {
	onBench(t, Config{PerAddress: Quota{Sessions: 1}, MaxSessions: 2}, func(b *bench) {
		first := b.admit(guestFrom("192.0.2.1", ActionSubscribe))
		_, err := b.relay.Admit(b.ctx, guestFrom("192.0.2.1", ActionSubscribe))
		b.refused(err, moqt.RequestExcessiveLoad)
		b.exceeded(charge.ByAddress, charge.SessionsOpen, 1)
		b.turnedAway("192.0.2.1")
		other := b.admit(guestFrom("192.0.2.2", ActionSubscribe))
		_, err = b.relay.Admit(b.ctx, guestFrom("192.0.2.3", ActionSubscribe))
		b.refused(err, moqt.RequestExcessiveLoad)
		first.Leave()
		first.Leave() // once is enough
		synctest.Wait()
		require.Error(t, first.Context().Err())
		b.admit(guestFrom("192.0.2.1", ActionSubscribe)).Leave()
		other.Leave()
	})
}

// TestGuestsHaveQuotas checks that a guest's media counts for its address and its token.
func TestGuestsHaveQuotas(t *testing.T) {
	quota := Quota{Upload: MinBitRate, Download: MinBitRate}
	onBench(t, Config{PerAddress: quota}, func(b *bench) {
		g := b.admit(guestFrom("192.0.2.1", ActionSubscribe))
		defer g.Leave()
		for name, use := range map[string]func(int) bool{"upload": g.Upload, "download": g.Download} {
			taken := 0
			for taken < 1<<20 && use(1000) {
				taken += 1000
			}
			require.InDelta(t, MinBitRate/8*charge.Burst.Seconds(), taken, 2000, name)
			time.Sleep(time.Second)
			require.True(t, use(1000), name)
		}
		for g.Download(1000) {
		}
		_, err := b.relay.Admit(b.ctx, guestFrom("192.0.2.1", ActionSubscribe))
		b.refused(err, moqt.RequestExcessiveLoad)
	})
}

// TestNoGuestsWhileDraining checks that a relay that goes away takes no guests.
func TestNoGuestsWhileDraining(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		b.relay.Drain(b.ctx, "", time.Second)
		_, err := b.relay.Admit(b.ctx, guestFrom("192.0.2.1", ActionSubscribe))
		b.refused(err, moqt.RequestExcessiveLoad)
	})
}

// TestGuestsAreListed checks the list of guests.
func TestGuestsAreListed(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		publisher := b.admit(guestFrom("192.0.2.1", ActionPublishNamespace))
		time.Sleep(time.Second)
		viewer := b.admit(guestFrom("192.0.2.2", ActionSubscribe))
		publisher.SetCarrier("udp")
		require.True(t, publisher.Upload(1000))
		require.True(t, viewer.Download(300))
		viewer.Drop()
		for _, byKernel := range []bool{true, false, true} {
			viewer.CountPacket(byKernel)
		}
		list := b.relay.Guests()
		require.Equal(t, []GuestStatus{
			{
				Remote: addressOf("192.0.2.1").String(), Protocol: "rtsp", Carrier: "udp", Publishes: true,
				Namespace: "live-room", Began: list[0].Began, Received: 1000,
			},
			{
				Remote: addressOf("192.0.2.2").String(), Protocol: "rtsp", Namespace: "live-room",
				Began: list[0].Began.Add(time.Second), Sent: 300, Kernel: 2, Process: 1, Dropped: 1,
			},
		}, list)
		publisher.Leave()
		viewer.Leave()
		synctest.Wait()
		require.Empty(t, b.relay.Guests())
	})
}
