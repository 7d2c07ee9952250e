package relay

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
)

// TestSessionLimits has subscribers with tight limits of a WebTransport session get everything: by streams of the media
// sender, in answers to requests meanwhile, and by FETCH. A subscriber ends its session when a limit is exceeded.
func TestSessionLimits(t *testing.T) {
	n := newNetwork(t)
	pubs := make(chan *session.Publication, 1)
	pub := n.connect("moqt", &clientHandler{subscribe: func(p *session.Publication) {
		if p.Accept(moqt.Parameters{}, nil) == nil {
			pubs <- p
		}
	}})
	ns, err := pub.PublishNamespace(t.Context(), moqt.PublishNamespace{Namespace: moqt.Namespace{"live"}})
	require.NoError(t, err)
	require.NoError(t, ns.Wait(t.Context()))
	var viewers []*session.Session
	var sinks []*frames
	for _, limits := range [][2]int64{{2, 1 << 60}, {1 << 60, 20_000}, {3, 50_000}} {
		viewer, _ := n.dial("https", nil, limit(limits[0], limits[1]))
		f := newFrames()
		sub, err := viewer.Subscribe(t.Context(), moqt.Subscribe{Track: video}, f)
		require.NoError(t, err)
		_, err = sub.Wait(t.Context())
		require.NoError(t, err)
		viewers, sinks = append(viewers, viewer), append(sinks, f)
	}
	asked := make(chan error, 1)
	go func() {
		var err error
		for range 100 {
			if _, err = viewers[2].TrackStatus(t.Context(), moqt.TrackStatus{Track: video}); err != nil {
				break
			}
		}
		asked <- err
	}()
	want := publishFrames(t, <-pubs)
	for _, f := range sinks {
		f.await(t, want)
	}
	require.NoError(t, <-asked)
	for _, viewer := range viewers {
		checkFetch(t, viewer, want, 10)
	}
}
