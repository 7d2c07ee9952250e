package rtsp

import (
	"io"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"testing"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/format"
	"github.com/bluenviron/mediacommon/v2/pkg/codecs/h264"
	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/player/client"
	"sluice/player/pub"
	"sluice/player/sub"
	"sluice/server"
	"sluice/transport"
)

// publishLadder publishes two renditions, of 360 and 90 lines.
func publishLadder(t *testing.T, relay *server.Server, ns moqt.Namespace) {
	t.Helper()
	opener := func(name string) func() (io.ReadCloser, error) {
		return func() (io.ReadCloser, error) { return os.Open(name) }
	}
	var running sync.WaitGroup
	running.Go(func() {
		_ = pub.Run(t.Context(), pub.PublisherConfig{ // the test fails if it does not publish
			Namespace: ns, Loop: true, Open: opener("../testdata/clip.mp4"),
			Renditions: []func() (io.ReadCloser, error){opener("../player/sub/testdata/low.mp4")},
			Client: client.SessionConfig{
				URL: "moqt://" + relay.Addr().String(), Logger: slog.New(slog.DiscardHandler), ReconnectTimeout: -1,
				Transport: transport.ClientConfig{Insecure: true},
			},
		}, new(pub.Stats))
	})
	t.Cleanup(running.Wait)
}

// linesOf returns how many lines the pictures of a described broadcast have.
func linesOf(t *testing.T, s *Server, path string) int {
	t.Helper()
	u := s.url(t, path)
	c := &gortsplib.Client{Scheme: u.Scheme, Host: u.Host}
	require.NoError(t, c.Start())
	defer c.Close()
	desc, _, err := c.Describe(u)
	require.NoError(t, err)
	var f *format.H264
	require.NotNil(t, desc.FindFormat(&f))
	var sps h264.SPS
	require.NoError(t, sps.Unmarshal(f.SPS))
	return sps.Height()
}

// TestChoice asks for renditions of a MoQ broadcast, by name and bitrate, and plays one. Players with the same choice
// share a subscription.
func TestChoice(t *testing.T) {
	t.Parallel()
	relay, s := newMoQ(t, nil)
	publishLadder(t, relay, moqt.Namespace{"live", "room"})
	view(t, s, "/live/room") // when it is published
	for query, lines := range map[string]int{
		"": 360, "?rendition=best": 360, "?rendition=360p": 360, "?rendition=90p": 90, "?rendition=least": 90,
		"?max-bitrate=300": 90, "?max-bitrate=1": 90, "?max-bitrate=5000": 360, "?rendition=90p&max-bitrate=5000": 90,
	} {
		require.Equal(t, lines, linesOf(t, s, "/live/room"+query), query)
	}
	eventually(t, "only that which is played", func() bool { return counted(t, s, "broadcasts") == 1 })
	for range 2 {
		v := view(t, s, "/live/room?rendition=90p")
		eventually(t, "pictures", func() bool { return len(v.got("video")) > 2 })
	}
	require.EqualValues(t, 2, counted(t, s, "broadcasts"))

	require.ErrorContains(t, describe(t, s, "/live/room?rendition=720p"), "404")
	require.ErrorContains(t, describe(t, s, "/live/room?rendition=720p"), `no rendition "720p"; the catalog has `)
	for _, query := range []string{"rendition=relay", "max-bitrate=x", "max-bitrate=-1"} {
		require.ErrorContains(t, describe(t, s, "/live/room?"+query), "400", query)
	}
}

// TestChoicesOfASource checks that clients of one address cannot begin downlinks with other choices again and again,
// and that these do not keep others out.
func TestChoicesOfASource(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(c *Config) { c.MaxBroadcasts = maxChoices + 3 })
	one, other := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("2001:db8::/64")
	want := func(bitrate int, source netip.Prefix) error {
		c := choice{maxBitrate: bitrate}
		err := s.roomLocked(c, source)
		if err == nil {
			d := &downlink{source: source, ready: make(chan struct{})}
			s.downlinks[keyOf(moqt.Namespace{"live"}, c)] = d
		}
		return err
	}
	for i := range maxChoices {
		require.NoError(t, want(i+1, one))
	}
	require.Equal(t, errTooManyChoices, want(maxChoices+1, one))
	require.NoError(t, want(0, one), "without a choice")
	require.NoError(t, want(maxChoices+1, other))
	delete(s.downlinks, keyOf(moqt.Namespace{"live"}, choice{maxBitrate: 1}))
	require.NoError(t, want(maxChoices+2, one), "one has ended")
	require.NoError(t, want(maxChoices+3, other))
	require.Equal(t, errTooManyBroadcasts, want(maxChoices+4, other))
}

// TestReadChoice checks that the same choice has one name.
func TestReadChoice(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]choice{
		"": {}, "token=x": {}, "rendition=best": {}, "rendition=720p&max-bitrate=2000": {"720p", 2000},
		"rendition=" + sub.RenditionLeast: {rendition: "least"}, "max-bitrate=0500": {maxBitrate: 500},
	} {
		got, err := readChoice(query)
		require.NoError(t, err, query)
		require.Equal(t, want, got, query)
	}
	for _, query := range []string{"rendition=relay", "max-bitrate=0", "max-bitrate=1000001", "max-bitrate=1e3"} {
		_, err := readChoice(query)
		require.ErrorIs(t, err, errChoice, query)
	}
}
