package load

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/lab/bench/video"
)

// TestConference has three participants publish and watch each other.
func TestConference(t *testing.T) {
	const frames = 5
	url, mock := startRelay(t), video.Mock{Rate: 1e6, FrameRate: 100, Group: 10}
	namespaces := []string{"room/a", "room/b", "room/c"}
	var all []*remote
	for i, own := range namespaces {
		others := []string{namespaces[(i+1)%3], namespaces[(i+2)%3]}
		p := startGenerator(t, GeneratorConfig{Publish: true, URL: url, Mock: mock, Namespace: own, Others: others})
		require.True(t, p.event(t).Ready, "announced")
		all = append(all, p)
	}
	tell := func(command string) {
		for _, p := range all {
			p.tell(t, command)
		}
	}
	tell(Join)
	for _, p := range all {
		require.Equal(t, Event{Ready: true}, p.event(t), "subscribed")
	}
	tell(Go)
	for delivered := uint64(0); delivered < 2*frames; delivered = *all[0].event(t).Delivered {
		all[0].tell(t, Count)
	}
	tell(Stop)
	published := make([]*Published, len(all))
	most := uint64(0)
	for i, p := range all {
		published[i] = p.event(t).Published
		require.NotNil(t, published[i])
		most = max(most, published[i].Objects)
	}
	tell(fmt.Sprintf("%s %d", Stop, most))
	for i, p := range all {
		received := p.event(t).Received
		require.Len(t, received, 2)
		for j, r := range received {
			want := published[(i+1+j)%3]
			require.Equal(t, want.Objects, r.Objects)
			require.Equal(t, want.Bytes, r.Bytes)
			require.Len(t, r.Arrivals, int(want.Objects))
			require.Zero(t, r.Corrupt+r.Duplicates)
		}
	}
	tell(Stop)
	for _, p := range all {
		require.NoError(t, <-p.ended)
	}
}
