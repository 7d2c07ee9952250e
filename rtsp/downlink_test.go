package rtsp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/bluenviron/mediacommon/v2/pkg/codecs/mpeg4audio"
	"github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
	"sluice/moqt"
	"sluice/player/catalog"
	"sluice/player/client"
	"sluice/player/cmaf"
	"sluice/player/loc"
	"sluice/player/pub"
	"sluice/relay"
	"sluice/server"
	"sluice/transport"
)

// film is a MoQ broadcast with picture and sound, that a test publishes piece by piece.
type film struct {
	init     []byte
	chunks   [][]byte
	pictures [][]byte
	sounds   [][]byte
	times    []int64 // of pictures, in 90,000 per second
}

// soundEntries are the sound beside the clips.
func soundEntries(t *testing.T) map[string]catalog.TrackEntry {
	config, err := mpeg4audio.AudioSpecificConfig{
		Type: mpeg4audio.ObjectTypeAACLC, SampleRate: 48000, ChannelConfig: 2,
	}.Marshal()
	require.NoError(t, err)
	opus := catalog.TrackEntry{Codec: "opus", SampleRate: 48000, Channels: "2", Timescale: 48000}
	return map[string]catalog.TrackEntry{
		"avc.mp4": {
			Codec: "mp4a.40.2", InitData: config, SampleRate: 48000, Channels: "2", Timescale: 48000,
		},
		"hevc.mp4": opus, "av1.mp4": opus,
	}
}

// newFilm adds a frame of sound to each of a clip's pictures.
func newFilm(t *testing.T, name string) *film {
	t.Helper()
	file, err := os.Open("../player/loc/testdata/" + name)
	require.NoError(t, err)
	defer file.Close()
	r := cmaf.NewReader(file)
	both, err := r.Init()
	require.NoError(t, err)
	picture, err := cmaf.ParseInit(both.Only(1))
	require.NoError(t, err)
	sound, err := loc.NewMuxer(7, soundEntries(t)[name])
	require.NoError(t, err)
	f := &film{}
	for i := 0; ; i++ {
		c, err := r.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		if c.Track != 1 {
			continue
		}
		samples, err := picture.Samples(c.Data)
		require.NoError(t, err)
		for _, s := range samples {
			f.pictures = append(f.pictures, s.Data)
			f.times = append(f.times, (int64(s.DecodeTime)+int64(s.Offset))*90_000/int64(picture.Tracks[0].Timescale))
		}
		payload := bytes.Repeat([]byte{byte(i), 1}, 100)
		at := picture.Tracks[0].Time(c.DecodeTime).Microseconds()
		s, ok := sound.Add(loc.Frame{Timestamp: uint64(at), Timed: true, Timescale: 1_000_000, Payload: payload})
		require.True(t, ok)
		other, err := sound.Chunk(s, 0)
		require.NoError(t, err)
		f.sounds = append(f.sounds, payload)
		f.chunks = append(f.chunks, c.Data, other)
	}
	b, err := sound.Init()
	require.NoError(t, err)
	second, err := cmaf.ParseInit(b)
	require.NoError(t, err)
	whole, err := cmaf.Join(picture, second)
	require.NoError(t, err)
	f.init = whole.Data
	return f
}

// publish publishes the media that the test writes, until it closes the writer.
func publish(
	t *testing.T, relay *server.Server, ns moqt.Namespace, packaging string, tokens ...moqt.Token,
) (*io.PipeWriter, *pub.Stats) {
	t.Helper()
	in, out := io.Pipe()
	stats := new(pub.Stats)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		_ = pub.Run(ctx, pub.PublisherConfig{ // the test fails if it does not publish
			Namespace: ns, Unpaced: true, Packaging: packaging, Wait: true,
			Open: func() (io.ReadCloser, error) { return in, nil },
			Client: client.SessionConfig{
				URL: "moqt://" + relay.Addr().String(), Logger: slog.New(slog.DiscardHandler), ReconnectTimeout: -1,
				Tokens: tokens, Transport: transport.ClientConfig{Insecure: true},
			},
		}, stats)
	})
	t.Cleanup(func() { stop(); _ = out.Close(); running.Wait() })
	return out, stats
}

// viewer is an RTSP client that takes frames out of packets.
type viewer struct {
	client *gortsplib.Client

	mu     sync.Mutex
	frames map[description.MediaType][][]byte
	times  []uint32 // of pictures
}

// view plays a broadcast as soon as there is one.
func view(t *testing.T, s *Server, path string) *viewer {
	t.Helper()
	return viewBy(t, s, path, gortsplib.ProtocolTCP)
}

func viewBy(t *testing.T, s *Server, path string, p gortsplib.Protocol) *viewer {
	t.Helper()
	u := s.url(t, path)
	v := &viewer{frames: make(map[description.MediaType][][]byte)}
	var desc *description.Session
	eventually(t, "a description", func() bool {
		v.client = &gortsplib.Client{Protocol: protocol(p), Scheme: u.Scheme, Host: u.Host, ReadTimeout: patient}
		require.NoError(t, v.client.Start())
		var err error
		if desc, _, err = v.client.Describe(u); err != nil {
			v.client.Close()
		}
		return err == nil
	})
	t.Cleanup(v.client.Close)
	require.NoError(t, v.client.SetupAll(desc.BaseURL, desc.Medias))
	for i, m := range desc.Medias {
		f := newFrames(uint32(i+1), m.Formats[0], &budget{max: maxHeldInAll})
		require.NotNil(t, f)
		v.client.OnPacketRTP(m, m.Formats[0], func(p *rtp.Packet) {
			v.mu.Lock()
			defer v.mu.Unlock()
			for _, b := range f.take(p) {
				v.frames[m.Type] = append(v.frames[m.Type], bytes.Clone(b))
				if m.Type == description.MediaTypeVideo {
					v.times = append(v.times, p.Timestamp)
				}
			}
		})
	}
	_, err := v.client.Play(nil)
	require.NoError(t, err)
	return v
}

func (v *viewer) got(kind description.MediaType) [][]byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.frames[kind]
}

// shown returns the times of the pictures.
func (v *viewer) shown() []uint32 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.times
}

// begin is how many pictures of a film are published first: as many as one layer has at least, so that the streams of
// all layers are known.
const begin = 6

// TestMoQToRTSP publishes by MoQ and plays by RTSP, by UDP and on the TCP connection: the frames are the same, byte for
// byte, with their times. Players share a subscription, which there is only while there are players.
func TestMoQToRTSP(t *testing.T) {
	t.Parallel()
	for name, packaging := range map[string]string{
		"avc.mp4": catalog.CMAF, "hevc.mp4": catalog.LOC, "av1.mp4": catalog.CMAF,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			relay, s := newMoQ(t, nil)
			f := newFilm(t, name)
			out, stats := publish(t, relay, moqt.Namespace{"live", "room"}, packaging)
			go func() { // until there is a player, nobody reads
				for _, b := range append([][]byte{f.init}, f.chunks[:2*begin]...) {
					_, _ = out.Write(b) // fails when the test does
				}
			}()
			v := view(t, s, "/live/room")
			byUDP := viewBy(t, s, "/live/room", gortsplib.ProtocolUDP)
			other := view(t, s, "/live/room")
			eventually(t, "the first frames", func() bool {
				for _, v := range []*viewer{v, byUDP, other} {
					if len(v.got("video")) != begin {
						return false
					}
				}
				return true
			})
			require.EqualValues(t, 1, counted(t, s, "broadcasts"))
			subscriptions := stats.Subscriptions()
			other.client.Close()
			eventually(t, "two players", func() bool { return counted(t, s, "players") == 2 })
			require.Equal(t, subscriptions, stats.Subscriptions())
			for _, b := range f.chunks[2*begin:] {
				_, err := out.Write(b)
				require.NoError(t, err)
			}
			n := len(f.pictures) - 2 // the last ones wait for the other track to go on
			v.shows(t, f, n)
			byUDP.shows(t, f, n)
			require.NoError(t, out.Close())
			require.Error(t, v.client.Wait(), "the session ends with the broadcast")
			require.Error(t, byUDP.client.Wait())
			eventually(t, "no subscription", func() bool {
				return counted(t, s, "broadcasts") == 0 && stats.Subscriptions() == 0
			})
		})
	}
}

// shows waits for the first frames of a film.
func (v *viewer) shows(t *testing.T, f *film, n int) {
	t.Helper()
	eventually(t, "all", func() bool { return len(v.got("video")) >= n && len(v.got("audio")) >= n })
	require.Equal(t, f.sounds[:n], v.got("audio")[:n])
	times := v.shown()
	for i, b := range v.got("video")[:n] {
		require.True(t, bytes.Equal(f.pictures[i], b), "picture %d", i)
		require.Equal(t, uint32(f.times[i]-f.times[0]), times[i]-times[0], "picture %d", i)
	}
}

// describe asks for the description of a broadcast.
func describe(t *testing.T, s *Server, path string) error {
	t.Helper()
	u := s.url(t, path)
	c := &gortsplib.Client{Scheme: u.Scheme, Host: u.Host}
	require.NoError(t, c.Start())
	defer c.Close()
	_, _, err := c.Describe(u)
	return err
}

// TestBroadcastsToRefuse asks for broadcasts that RTSP players do not get.
func TestBroadcastsToRefuse(t *testing.T) {
	t.Parallel()
	relay, s := newMoQ(t, nil, func(c *Config) { c.MaxBroadcasts = 1 })
	require.ErrorContains(t, describe(t, s, "/live/none"), "404")

	file, err := os.ReadFile("../player/loc/testdata/vp9.mp4")
	require.NoError(t, err)
	in, err := cmaf.NewReader(bytes.NewReader(file)).Init()
	require.NoError(t, err)
	out, _ := publish(t, relay, moqt.Namespace{"live", "vp9"}, catalog.CMAF)
	_, err = out.Write(in.Only(1))
	require.NoError(t, err)
	eventually(t, "no codec", func() bool {
		err := describe(t, s, "/live/vp9")
		require.Error(t, err)
		return strings.Contains(err.Error(), "415") // 404 until it is published
	})

	f := newFilm(t, "avc.mp4")
	for _, name := range []string{"first", "second"} {
		out, _ := publish(t, relay, moqt.Namespace{"live", name}, catalog.CMAF)
		_, err := out.Write(f.init)
		require.NoError(t, err)
	}
	first := view(t, s, "/live/first")
	require.ErrorContains(t, describe(t, s, "/live/second"), "453")
	first.client.Close()
	eventually(t, "room", func() bool { return describe(t, s, "/live/second") == nil })
	eventually(t, "nobody plays", func() bool { return counted(t, s, "broadcasts") == 0 })
}

// TestPlayersOfMoQNeedPermission checks that each player shows a token of its own, and that the subscription which they
// share needs none.
func TestPlayersOfMoQNeedPermission(t *testing.T) {
	t.Parallel()
	tokens, file := tokenFile(t, "cam publish live\na subscribe live\nb subscribe live\n")
	r, s := newMoQ(t, tokens)
	cam := moqt.Token{AliasType: moqt.AliasUseValue, Value: []byte("cam")}
	out, _ := publish(t, r, moqt.Namespace{"live", "room"}, catalog.CMAF, cam)
	f := newFilm(t, "avc.mp4")
	_, err := out.Write(f.init)
	require.NoError(t, err)
	a := view(t, s, "/live/room?token=a")
	require.ErrorContains(t, describe(t, s, "/live/room"), "401")
	require.ErrorContains(t, describe(t, s, "/live/room?token=cam"), "401")
	b := view(t, s, "/live/room?token=b")
	rewrite(t, file, "cam publish live\nb subscribe live\n")
	require.Error(t, a.client.Wait(), "its permission has ended")
	for _, c := range f.chunks {
		_, err := out.Write(c)
		require.NoError(t, err)
	}
	eventually(t, "the other one plays", func() bool { return len(b.got("audio")) > 0 })
}

// TestPanicOfAPacker checks that a panic about a frame ends its broadcast only.
func TestPanicOfAPacker(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	f := newFilm(t, "avc.mp4")
	in, out := io.Pipe()
	d := &downlink{server: s, ready: make(chan struct{})}
	failed := make(chan error)
	go func() { failed <- d.read(in) }()
	_, err := out.Write(f.init)
	require.NoError(t, err)
	<-d.ready
	d.packers[1].pack = func([]byte) ([]*rtp.Packet, error) { panic("a bug") }
	_, err = out.Write(f.chunks[0])
	require.NoError(t, err)
	require.ErrorContains(t, <-failed, "a bug")
}

// TestUnreadableBroadcast checks that a client is not told details for the log only, as after a panic.
func TestUnreadableBroadcast(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := newServer(t, func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		c.DialOwn = func(context.Context, *relay.Audience) (transport.Conn, error) {
			return nil, errors.New("a bug\nat once")
		}
	})
	d := &downlink{server: s, namespace: moqt.Namespace{"live"}, ready: make(chan struct{})}
	var ctx context.Context
	ctx, d.cancel = context.WithCancel(t.Context())
	d.run(ctx)
	require.Equal(t, errUnreadable, d.err)
	require.Contains(t, log.String(), "at once")
}

// FuzzPacker makes packets of any frames of tracks with any configuration.
func FuzzPacker(f *testing.F) {
	codecs := []string{"avc1.64001e", "hvc1.1.6.L30.90", "av01.0.00M.08", "mp4a.40.2", "opus"}
	frames := [][]byte{
		{0, 0, 0, 2, 0x65, 1}, {0, 0, 0, 3, 0x26, 1, 1}, {0x12, 0, 0x0a, 1, 1, 0x32, 1, 1}, {1, 2, 3}, {0xfc, 1},
	}
	configs := [][]byte{
		{1, 0x64, 0, 30, 0xff, 0xe1, 0, 2, 0x67, 1, 1, 0, 1, 0x68}, append(make([]byte, 21), 0xff, 0),
		{0x81, 0, 0x0c, 0}, {0x11, 0x90}, nil,
	}
	for i := range codecs {
		f.Add(uint8(i), configs[i], frames[i], uint64(1), int32(-1), uint32(90_000), 2)
		f.Add(uint8(i), configs[i], bytes.Repeat(frames[i], 1000), uint64(1<<63), int32(1), uint32(1), 1)
	}
	f.Fuzz(func(t *testing.T, codec uint8, config, frame []byte, at uint64, offset int32, scale uint32, channels int) {
		testlimit.Run(t, len(config)+len(frame), 1000, func() {
			p, err := newPacker(cmaf.TrackInfo{
				Kind: cmaf.Video, Codec: codecs[int(codec)%len(codecs)], Config: config, Timescale: max(scale, 1),
				Channels: channels,
			})
			if err != nil {
				return
			}
			list, err := p.packets(cmaf.Sample{DecodeTime: at, Offset: offset, Data: frame})
			if err != nil {
				return
			}
			for _, one := range list {
				require.LessOrEqual(t, one.MarshalSize(), maxPacket)
				require.Equal(t, list[0].Timestamp, one.Timestamp)
			}
		})
	})
}

// TestPace sends many frames at once, as long as somebody wants them.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		d := &downlink{over: over}
		pass := func() time.Duration {
			began := time.Now()
			for range 100 * burst {
				d.pace()
			}
			return time.Since(began)
		}
		require.Equal(t, 99*burstInterval, pass(), "the first ones go at once")
		close(over)
		require.Zero(t, pass())
	})
}
