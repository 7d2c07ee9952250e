package rtsp

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/stretchr/testify/require"

	"sluice/lab/hostile"
	"sluice/relay"
)

// attackTime is how long an attack may take, and longer if the server has not counted it yet. Many end before.
const attackTime = 3 * time.Second

// evidence is the counter of a repelled attack: a metric, and its label.
var evidence = map[string][2]string{
	"connections without end":                  {"refused_connections_total", "address"},
	"absurd descriptions":                      {"refused_requests_total", "400"},
	"garbage in packets":                       {"ignored_packets_total", ignoredMalformed},
	"NACK without end":                         {"nacked_packets_total", nackLimit},
	"players of nobody's broadcasts":           {"refused_requests_total", "404"},
	"other people's paths":                     {"refused_requests_total", "403"},
	"other people's paths, from their address": {"refused_requests_total", "403"},
	"wrong tokens":                             {"refused_requests_total", "401"},
	"packets changed on their way":             {"ignored_packets_total", ignoredSRTP},
}

// TestAttacks attacks a server in all ways, each beside a publisher and a player who do not notice. At the end the
// server has nothing of the attacker.
func TestAttacks(t *testing.T) {
	t.Parallel()
	for _, a := range hostile.RTSPAttacks {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			testAttack(t, a)
		})
	}
}

func testAttack(t *testing.T, a hostile.RTSPAttack) {
	tokens, _ := tokenFile(t, "honest all *\nhostile all *\n")
	s, _ := newTLSServer(t, func(c *Config) {
		c.Relay, c.IdleTimeout = newRelay(t, relay.Config{Authorizer: tokens}), 2*idleSoon
		c.SRTPAddress = "any"
	})
	pub := publishTo(t, s, "/live/cam?token=honest", gortsplib.ProtocolTCP)
	sub := play(t, s, "/live/cam?token=honest", gortsplib.ProtocolTCP)
	ports := s.plain.ports.sessions()
	ended := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	client := hostile.RTSPClient{
		Address: s.Addr().String(), From: net.IPv4(127, 0, 0, 2), Token: "hostile", Victim: "live/cam",
		Beside: net.IPv4(127, 0, 0, 1), Secure: a.SRTP,
	}
	if a.SRTP {
		client.Address = s.TLSAddr().String()
	}
	go func() { ended <- a.Run(ctx, client) }()
	began, frames := time.Now(), 0
	proven := func() bool {
		e, ok := evidence[a.Name]
		return !ok || counted(t, s, e[0], e[1]) > 0
	}
	settled := func() bool {
		pub.frames(1)
		frames++
		return counted(t, s, "publishers") == 1 && counted(t, s, "players") == 1 && s.cfg.Relay.OpenSessions() == 0 &&
			len(s.cfg.Relay.Guests()) == 2
	}
	for attacking := true; attacking; time.Sleep(5 * time.Millisecond) {
		pub.frames(1)
		frames++
		select {
		case err := <-ended:
			require.True(t, ctx.Err() != nil || err == nil, "%v", err)
			attacking = false
		default:
			if time.Since(began) > attackTime && proven() {
				cancel()
			}
		}
	}
	require.True(t, proven(), "%v", evidence[a.Name])
	eventually(t, "the attacker's sessions end", settled)
	sub.expects(1, uint32(frames))
	eventually(t, "the attacker's ports are free", func() bool { return s.plain.ports.sessions() == ports })
}

// TestHostileParameterSets attacks a server whose publishers have MoQ broadcasts: only these need what parameter sets
// claim.
func TestHostileParameterSets(t *testing.T) {
	t.Parallel()
	_, s := newMoQ(t, nil)
	i := slices.IndexFunc(hostile.RTSPAttacks, func(a hostile.RTSPAttack) bool {
		return a.Name == "absurd parameter sets"
	})
	require.NoError(t, hostile.RTSPAttacks[i].Run(t.Context(), hostile.RTSPClient{Address: s.Addr().String()}))
	eventually(t, "the attacker has left", func() bool { return counted(t, s, "publishers") == 0 })
}
