package relay

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/media"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
	"sluice/transport/transporttest"
)

// TestSessions describes sessions while they last, with what the media sender knows, and for a while after that.
func TestSessions(t *testing.T) {
	n := newNetwork(t)
	_, pubs := n.publisher("https")
	viewer := n.connect("moqt", nil)
	_, got := n.watch(viewer)
	got.await(t, publishFrames(t, <-pubs))

	var list []SessionStatus
	require.Eventually(t, func() bool {
		list = n.relay.Sessions()
		return len(list) == 2 && list[1].Streams["delivered"] == 20
	}, time.Minute, 10*time.Millisecond, "%+v", list)
	p, s := list[0], list[1]
	require.Equal(t, []any{uint64(1), "webtransport", 1, 0}, []any{p.ID, p.Transport, p.Publications, p.Subscriptions})
	require.Zero(t, p.Packets.Process)
	require.Equal(t, []any{uint64(2), "quic", "/", 0, 1},
		[]any{s.ID, s.Transport, s.Path, s.Publications, s.Subscriptions})
	require.Equal(t, "TLS_CHACHA20_POLY1305_SHA256", s.CipherSuite)
	require.Equal(t, "cubic", s.Controller)
	require.NotEmpty(t, s.Remote)
	require.False(t, s.FastPath)
	require.Zero(t, s.Packets.Kernel)
	require.Greater(t, s.Packets.Process, uint64(20))
	require.Greater(t, s.Bytes, 1000*s.Packets.Process/2)
	require.NotZero(t, s.SRTT)
	require.Greater(t, s.Window, 2400)
	require.Equal(t, media.LowestPriority, s.Threshold)
	require.Nil(t, s.Ended)

	viewer.Close(moqt.SessionNoError, "")
	require.Eventually(t, func() bool {
		list = n.relay.Sessions()
		return list[1].Ended != nil
	}, time.Minute, 10*time.Millisecond)
	require.GreaterOrEqual(t, list[1].Packets.Process, s.Packets.Process)
	require.Zero(t, list[1].Subscriptions)
	require.Nil(t, list[0].Ended)
}

// TestQueriesAreSecret checks that the query of a URL, which may hold a token, reaches the Authorizer, and neither the
// status nor the log.
func TestQueriesAreSecret(t *testing.T) {
	for _, kind := range []transport.Kind{transport.RawQUIC, transport.WebTransport} {
		var log strings.Builder
		auth := &rules{allow: func(AuthRequest) (Grant, error) { return Grant{}, errors.New("no") }}
		cfg := Config{
			Authorizer: auth,
			Logger:     slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		}
		onBench(t, cfg, func(b *bench) {
			const path = "/app?token=secret"
			pipe := transporttest.PipeConfig{Kind: kind, Authority: "relay", Path: path}
			c := b.connectWith(pipe, func(cfg *session.Config) {
				if cfg.Path = path; kind == transport.WebTransport {
					cfg.Authority, cfg.Path = "", ""
				}
			})
			_, _, err := c.subscribe(moqt.Parameters{})
			b.refused(err, moqt.RequestInternalError)
			require.Equal(t, path, auth.asked[0].Path)
			for _, ended := range []bool{false, true} {
				list := b.relay.Sessions()
				require.Len(t, list, 1)
				require.Equal(t, "/app", list[0].Path)
				require.Equal(t, ended, list[0].Ended != nil)
				b.closeAll()
			}
		})
		require.Contains(t, log.String(), "path=/app")
		require.NotContains(t, log.String(), "secret")
	}
}

func TestEndedSessionsAreForgotten(t *testing.T) {
	var s sessions
	now := time.Now()
	for i := range maxEnded + 10 {
		at := now.Add(time.Duration(i-5) * endedFor)
		s.ended = append(s.ended, SessionStatus{ID: uint64(i), Ended: &at})
	}
	s.forgetEndedLocked()
	require.Len(t, s.ended, maxEnded, "the last ones")
	require.EqualValues(t, 10, s.ended[0].ID)

	old, recent := now.Add(-endedFor-time.Second), now.Add(-endedFor/2)
	s.ended = []SessionStatus{{ID: 1, Ended: &old}, {ID: 2, Ended: &recent}}
	s.forgetEndedLocked()
	require.Len(t, s.ended, 1)
	require.EqualValues(t, 2, s.ended[0].ID)
	s.ended[0].Ended = &old
	s.forgetEndedLocked()
	require.Empty(t, s.ended)
}
