package relay

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

// Viewers are the subscribers of the track that has most of them.
func TestViewers(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		publisher := b.connect()
		publisher.serve(&source{})
		publisher.announce("live")
		require.Zero(t, b.relay.Viewers(video.Namespace, "", "/"))
		first := b.connect()
		_, s := first.mustSubscribe(moqt.Parameters{})
		b.connect().mustSubscribe(moqt.Parameters{})
		require.Equal(t, 2, b.relay.Viewers(video.Namespace, "", "/"))
		require.Zero(t, b.relay.Viewers(moqt.Namespace{"live"}, "", "/"), "the namespace above")

		audio := moqt.FullTrackName{Namespace: video.Namespace, Name: "audio"}
		_, err := first.Subscribe(b.ctx, moqt.Subscribe{Track: audio}, &sink{})
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 2, b.relay.Viewers(video.Namespace, "", "/"), "one of them has two tracks")
		s.Cancel(moqt.ResetCancelled)
		synctest.Wait()
		require.Equal(t, 1, b.relay.Viewers(video.Namespace, "", "/"))
	})
}
