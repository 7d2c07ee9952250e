package sub

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport/transporttest"
)

// stalling accepts each FETCH and sends nothing.
type stalling struct{ session.Unsupported }

func (stalling) HandleFetch(f *session.IncomingFetch) {
	if f.OK(moqt.FetchOK{End: f.Range.FetchEnd()}) == nil {
		_, _ = f.OpenStream(f.Context()) // fails only if the fetch is over
	}
}

// A FETCH ends with its context, or when nothing comes.
func TestFetchThatStalls(t *testing.T) {
	for name, want := range map[string]error{"cancelled": context.Canceled, "waited for": errStalled} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := transporttest.Pipe(transporttest.PipeConfig{})
				quiet := slog.New(slog.DiscardHandler)
				player, err := session.New(near, session.Config{Handler: session.Unsupported{}, Logger: quiet})
				require.NoError(t, err)
				relay, err := session.New(far, session.Config{
					Role: session.Server, Handler: stalling{}, Logger: quiet,
				})
				require.NoError(t, err)
				for _, s := range []*session.Session{player, relay} {
					go func() { _ = s.Run(context.Background()) }() // ends with player.Close
				}
				defer player.Close(moqt.SessionNoError, "")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if want == context.Canceled {
					time.AfterFunc(time.Second, cancel)
				}
				cfg := PlayerConfig{}.withDefaults()
				m := moqt.Fetch{
					FetchType: moqt.FetchStandalone, Track: moqt.FullTrackName{Namespace: namespace, Name: "1.m4s"},
					End: at(1, 0),
				}
				require.ErrorIs(t, readFetched(ctx, &cfg, player, m, nil), want)
			})
		})
	}
}
