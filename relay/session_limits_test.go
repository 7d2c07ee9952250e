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
	_, pubs := n.publisher("moqt")
	var viewers []*session.Session
	var sinks []*frames
	for _, limits := range [][2]int64{{2, 1 << 60}, {1 << 60, 20_000}, {3, 50_000}} {
		viewer, _ := n.dial("https", nil, limit(limits[0], limits[1]))
		_, f := n.watch(viewer)
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
