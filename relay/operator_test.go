package relay

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
	"sluice/transport/transporttest"
)

// crowd is what TestKick chooses from: a publisher, viewers and guests.
type crowd struct {
	*bench
	publisher, member, stranger *client
	camera, player              *Guest
}

func newCrowd(b *bench) *crowd {
	b.authorize(allowing("pub publish live", "alice subscribe live", "cam publish room", "bob subscribe live"))
	c := &crowd{bench: b, publisher: b.from("203.0.113.1", withToken("pub"))}
	c.publisher.serve(new(source))
	c.publisher.announce("live")
	synctest.Wait()
	c.member, c.stranger = b.from("192.0.2.1", withToken("alice")), b.from("198.51.100.1", withToken("bob"))
	c.member.mustSubscribe(moqt.Parameters{})
	c.stranger.mustSubscribe(moqt.Parameters{})
	camera := guestFrom("192.0.2.1", ActionPublishNamespace, "cam")
	camera.Namespace = moqt.Namespace{"room"}
	c.camera, c.player = b.admit(camera), b.admit(guestFrom("2001:db8::1", ActionSubscribe, "alice"))
	synctest.Wait()
	return c
}

// withToken shows a token in SETUP.
func withToken(tok string) func(*session.Config) {
	return func(cfg *session.Config) { cfg.Tokens = []moqt.Token{token(tok)} }
}

// ended names the sessions that have ended.
func (c *crowd) ended() (names []string) {
	for _, s := range []struct {
		name string
		ctx  context.Context
	}{
		{"publisher", c.publisher.Context()}, {"member", c.member.Context()}, {"stranger", c.stranger.Context()},
		{"camera", c.camera.Context()}, {"player", c.player.Context()},
	} {
		if s.ctx.Err() != nil {
			names = append(names, s.name)
		}
	}
	return names
}

func fromPrefix(text string) Selector {
	p, err := ParsePrefix(text)
	if err != nil {
		panic(err)
	}
	return Selector{Prefix: p}
}

// TestKick ends sessions that are chosen in each way, and only those.
func TestKick(t *testing.T) {
	for name, test := range map[string]struct {
		by   Selector
		want []string
	}{
		"id of a session": {Selector{ID: 1}, []string{"publisher"}},
		"id of a guest":   {Selector{ID: 5}, []string{"player"}},
		"id of nobody":    {Selector{ID: 6}, nil},
		"address":         {fromPrefix("192.0.2.1"), []string{"member", "camera"}},
		"mapped address":  {fromPrefix("::ffff:192.0.2.1"), []string{"member", "camera"}},
		"prefix":          {fromPrefix("198.51.100.77/24"), []string{"stranger"}},
		"IPv6 prefix":     {fromPrefix("2001:db8::/32"), []string{"player"}},
		"subject":         {Selector{Subject: subjectOf("alice")}, []string{"member", "player"}},
		"subject of none": {Selector{Subject: "alice"}, nil},
		"publishers":      {Selector{Role: Publisher}, []string{"publisher", "camera"}},
		"subscribers":     {Selector{Role: Subscriber}, []string{"member", "stranger", "player"}},
		"upstream relays": {Selector{Role: Upstream}, nil},
		"several at once": {
			Selector{Subject: subjectOf("alice"), Prefix: fromPrefix("192.0.2.0/24").Prefix}, []string{"member"},
		},
		"all":              {Selector{}, []string{"publisher", "member", "stranger", "camera", "player"}},
		"both do not hold": {Selector{Role: Publisher, Subject: subjectOf("alice")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, Config{}, func(b *bench) {
				c := newCrowd(b)
				require.Len(t, OperatorOf(b.relay).Sessions(test.by), len(test.want))
				require.Len(t, OperatorOf(b.relay).Kick(test.by), len(test.want))
				synctest.Wait()
				require.Equal(t, test.want, c.ended())
				c.camera.Leave()
				c.player.Leave()
			})
		})
	}
}

// TestWithdrawnTokenIsRefused shows that a token which is withdrawn lets nobody in, until it is restored, and that an
// Authorizer without an answer changes nothing about that.
func TestWithdrawnTokenIsRefused(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		b.authorize(allowing("tok all live"))
		list := OperatorOf(b.relay).Withdrawn()
		_, err := list.Withdraw(subjectOf("tok"), time.Hour)
		require.NoError(t, err)
		_, err = b.relay.Admit(b.ctx, guestFrom("192.0.2.1", ActionSubscribe, "tok"))
		b.refused(err, moqt.RequestUnauthorized)
		_, err = list.Restore(subjectOf("tok"))
		require.NoError(t, err)
		g := b.admit(guestFrom("192.0.2.1", ActionSubscribe, "tok"))
		b.authorize(&rules{allow: func(AuthRequest) (Grant, error) {
			return refuse(moqt.RequestInternalError, "down")
		}})
		b.relay.leases.Changed()
		synctest.Wait()
		require.NoError(t, g.Context().Err())
		_, err = list.Withdraw(subjectOf("tok"), time.Hour)
		require.NoError(t, err)
		synctest.Wait()
		require.ErrorIs(t, context.Cause(g.Context()), ErrWithdrawn)
		g.Leave()
	})
}

// TestUpstreamRelaysAreMeant shows that all sessions of an address end but those that this relay has dialed.
func TestUpstreamRelaysAreMeant(t *testing.T) {
	s := SessionSummary{
		ID: 7, Upstream: "moqt://a.example", Roles: []Role{Upstream, Publisher},
		address: netip.MustParseAddr("192.0.2.1"),
	}
	for by, want := range map[Selector]bool{
		fromPrefix("192.0.2.1"): false, {Role: Publisher}: false, {}: false, {ID: 7}: true, {Role: Upstream}: true,
		{ID: 8}: false, {Role: Upstream, Prefix: fromPrefix("192.0.2.2").Prefix}: false,
	} {
		require.Equal(t, want, by.kicks(&s), by.String())
	}
}

// TestParsePrefix checks which addresses and prefixes an operator may write.
func TestParsePrefix(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.7": "192.0.2.7/32", "192.0.2.7/24": "192.0.2.0/24", "::ffff:192.0.2.7": "192.0.2.7/32",
		"2001:db8::1": "2001:db8::1/128", "2001:db8::1/32": "2001:db8::/32", "0.0.0.0/0": "0.0.0.0/0",
	} {
		p, err := ParsePrefix(text)
		require.NoError(t, err)
		require.Equal(t, want, p.String())
	}
	for _, text := range []string{
		"", "host", "192.0.2", "192.0.2.1/33", "fe80::1%eth0", "192.0.2.1:80", "::ffff:192.0.2.1/112",
	} {
		_, err := ParsePrefix(text)
		require.ErrorContains(t, err, "must be an IP address or a prefix", text)
	}
}

// silentPeer is the end of a WebTransport session whose peer does not answer that it closes.
type silentPeer struct{ transport.Conn }

func (c silentPeer) CloseWithError(code uint64, reason string) error {
	time.Sleep(time.Second)
	return c.Conn.CloseWithError(code, reason)
}

// TestSilentPeers ends the sessions of many peers that do not answer. It waits for all of them together.
func TestSilentPeers(t *testing.T) {
	for name, end := range map[string]func(*bench){
		"kicked": func(b *bench) { require.Len(b.t, OperatorOf(b.relay).Kick(Selector{}), 5) },
		"drained": func(b *bench) {
			over, cancel := context.WithCancel(b.ctx)
			cancel()
			b.relay.Drain(over, "", time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, Config{}, func(b *bench) {
				for range 5 {
					conn, server := transporttest.Pipe(transporttest.PipeConfig{})
					b.attach(conn, silentPeer{server})
				}
				began := time.Now()
				end(b)
				require.Less(t, time.Since(began), 2*time.Second)
			})
		})
	}
}
