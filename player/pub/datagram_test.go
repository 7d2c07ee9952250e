package pub

import (
	"bytes"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/player/cmaf"
)

func TestDatagrams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := (&peer{}).start(t, PublisherConfig{Datagrams: true})
		s, r, err := p.subscribe("2.m4s", moqt.Parameters{})
		require.NoError(t, err)
		v, video, err := p.subscribe("1.m4s", moqt.Parameters{})
		require.NoError(t, err)
		time.Sleep(3 * time.Second)
		objects, payloads, _, err := p.fetch(moqt.Fetch{
			FetchType: moqt.FetchStandalone, Track: name("2.m4s"), Start: moqt.Location{}, End: moqt.Location{Group: 1},
		})
		require.NoError(t, err)
		<-s.Context().Done()
		<-v.Context().Done()
		synctest.Wait()

		require.Empty(t, r.headers, "no streams")
		require.Empty(t, video.datagrams)
		require.Equal(t, 250, video.count())
		// The end of a group and the start of the next one go at the same time.
		slices.SortFunc(r.datagrams, func(a, b moqt.ObjectDatagram) int {
			if a.Location.Less(b.Location) {
				return -1
			}
			return 1
		})
		next, ended := moqt.Location{}, 0
		for _, d := range r.datagrams {
			require.Equal(t, next, d.Location)
			next.Object++
			if d.Status == moqt.StatusEndOfGroup {
				next, ended = moqt.Location{Group: next.Group + 1}, ended+1
			}
			require.True(t, d.DefaultPriority)
		}
		require.Equal(t, 5, ended, "groups")
		require.Len(t, r.datagrams, 470+ended)
		require.NotEmpty(t, objects)
		noMedia := func(d moqt.ObjectDatagram) bool { return d.Status != moqt.StatusNormal }
		media := slices.DeleteFunc(r.datagrams, noMedia)
		for i, o := range objects {
			require.True(t, o.Datagram)
			require.Equal(t, media[i].Location, o.Location)
			require.True(t, bytes.Equal(media[i].Payload, payloads[i]))
		}
	})
}

func TestChunksTooLargeForDatagrams(t *testing.T) {
	f := &feed{cfg: &PublisherConfig{}}
	for size, want := range map[int]bool{1: true, maxDatagramPayload: true, maxDatagramPayload + 1: false} {
		o := f.chunk(&track{datagrams: true}, cmaf.Chunk{Data: make([]byte, size)}, false)
		require.Equal(t, want, o.datagram, size)
	}
	require.False(t, f.chunk(&track{}, cmaf.Chunk{Data: make([]byte, 1)}, false).datagram)
}

func TestLateDatagramsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &delivery{objectTimeout: time.Second}
		o := &object{born: time.Now()}
		require.False(t, d.tooLate(o))
		time.Sleep(1100 * time.Millisecond)
		require.True(t, d.tooLate(o))
		d.objectTimeout, d.subgroupTimeout = 0, time.Second
		require.True(t, d.tooLate(o))
		d.subgroupTimeout = 0
		require.False(t, d.tooLate(o), "no timeout")
	})
}
