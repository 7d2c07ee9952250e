package loc

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bluenviron/mediacommon/v2/pkg/codecs/h264"
	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
	"sluice/moqt"
	"sluice/player/catalog"
	"sluice/player/cmaf"
)

// clip returns the tracks of a file of testdata, and the samples of each by its id.
func clip(t testing.TB, name string) ([]cmaf.TrackInfo, map[uint32][]cmaf.Sample) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	r := cmaf.NewReader(bytes.NewReader(b))
	in, err := r.Init()
	require.NoError(t, err)
	samples := map[uint32][]cmaf.Sample{}
	for {
		c, err := r.Next()
		if err == io.EOF {
			return in.Tracks, samples
		}
		require.NoError(t, err)
		s, err := in.Samples(c.Data)
		require.NoError(t, err)
		samples[c.Track] = append(samples[c.Track], s...)
	}
}

func entry(t cmaf.TrackInfo) catalog.TrackEntry {
	return catalog.TrackEntry{
		Name: "test", Packaging: catalog.LOC, Codec: t.Codec, SampleRate: t.SampleRate,
		Width: t.Width, Height: t.Height,
		Channels: strconv.Itoa(t.Channels), InitData: t.Config,
	}
}

func present(s cmaf.Sample) int64 { return int64(s.DecodeTime) + int64(s.Offset) }

// mux returns the init segment and the chunks of samples.
func mux(t *testing.T, m *Muxer, scale uint64, samples []cmaf.Sample) (*cmaf.Init, []cmaf.Sample) {
	t.Helper()
	var out []cmaf.Sample
	var in *cmaf.Init
	const shift = 4096 // decode times may be before the first presentation time
	for _, s := range samples {
		ready, ok := m.Add(Frame{
			Timestamp: uint64(present(s) + shift), Timed: true, Timescale: scale, Payload: s.Data,
		})
		require.True(t, ok)
		chunk, err := m.Chunk(ready, 0)
		require.NoError(t, err)
		if in == nil {
			b, err := m.Init()
			require.NoError(t, err)
			in, err = cmaf.ParseInit(b)
			require.NoError(t, err)
		}
		got, err := in.Samples(chunk)
		require.NoError(t, err)
		require.Len(t, got, 1)
		got[0].Offset -= shift
		out = append(out, got[0])
	}
	return in, out
}

func TestMuxer(t *testing.T) {
	for _, name := range []string{"avc.mp4", "hevc.mp4", "av1.mp4", "vp9.mp4"} {
		t.Run(name, func(t *testing.T) {
			tracks, samples := clip(t, name)
			for _, track := range tracks {
				m, err := NewMuxer(7, entry(track))
				require.NoError(t, err)
				in, got := mux(t, m, uint64(track.Timescale), samples[track.ID])
				want := track
				want.ID, want.Bitrate = 7, 0
				require.Equal(t, describe(want), describe(in.Tracks[0]))
				last := int64(-1)
				for i, s := range samples[track.ID] {
					require.Equal(t, s.Data, got[i].Data)
					require.Equal(t, s.Sync, got[i].Sync, i)
					require.Equal(t, present(s), present(got[i]), "presentation time of frame %d", i)
					require.Greater(t, int64(got[i].DecodeTime), last, "decode time of frame %d", i)
					last = int64(got[i].DecodeTime)
				}
			}
		})
	}
}

// describe returns the fields that have to survive, without those that the package does not export.
func describe(t cmaf.TrackInfo) []any {
	if t.Kind == cmaf.Audio && t.Codec == "opus" {
		t.SampleRate = 48000
	}
	return []any{t.ID, t.Kind, t.Timescale, t.Codec, t.Width, t.Height, t.SampleRate, t.Channels}
}

// A player that comes late drops frames until one with which decoding can start. Parameter sets may be in the frames,
// with start codes.
func TestMuxerFindsParameterSets(t *testing.T) {
	for name, codec := range map[string]string{"avc.mp4": "avc3.64000a", "hevc.mp4": "hev1.1.6.L30.90"} {
		t.Run(name, func(t *testing.T) {
			tracks, all := clip(t, name)
			samples := all[1]
			c, err := newCodec(entry(tracks[0]))
			require.NoError(t, err)
			var sets h264.AnnexB
			for _, typ := range c.(*nalCodec).wanted {
				sets = append(sets, c.(*nalCodec).parameters[typ]...)
			}
			bare := catalog.TrackEntry{Codec: codec, Packaging: catalog.LOC}
			m, err := NewMuxer(1, bare)
			require.NoError(t, err)
			_, ok := m.Add(Frame{Payload: samples[0].Data})
			require.False(t, ok, "a key frame without parameter sets")
			require.False(t, m.Ready())
			_, ok = m.Add(Frame{Payload: samples[1].Data})
			require.False(t, ok)

			nals, _, ok := split(samples[0].Data)
			require.True(t, ok)
			stream, err := append(slices.Clone(sets), nals...).Marshal()
			require.NoError(t, err)
			s, ok := m.Add(Frame{Timestamp: 100, Timed: true, Timescale: 25, Payload: stream})
			require.True(t, ok)
			want, err := h264.AVCC(append(slices.Clone(sets), nals...)).Marshal()
			require.NoError(t, err)
			require.Equal(t, want, s.payload, "lengths instead of start codes")
			b, err := m.Init()
			require.NoError(t, err)
			in, err := cmaf.ParseInit(b)
			require.NoError(t, err)
			require.Equal(t, [2]int{64, 64}, [2]int{in.Tracks[0].Width, in.Tracks[0].Height}, "from the bitstream")
			require.Equal(t, codec[:4], in.Tracks[0].Codec[:4])

			// A configuration in a property does, too.
			m, err = NewMuxer(1, bare)
			require.NoError(t, err)
			_, ok = m.Add(Frame{Payload: samples[0].Data, Config: tracks[0].Config})
			require.True(t, ok)
		})
	}
}

// Frames that do not say their times follow each other.
func TestMuxerTimes(t *testing.T) {
	track := catalog.TrackEntry{Codec: "opus", Framerate: 10}
	m, err := NewMuxer(1, track)
	require.NoError(t, err)
	m.SetTimescale(1000)
	add := func(f Frame) time.Duration {
		f.Payload = []byte{0}
		s, ok := m.Add(f)
		require.True(t, ok)
		return m.Time(s)
	}
	require.Equal(t, time.Second, add(Frame{Timestamp: 1000, Timed: true}))
	require.Equal(t, 1020*time.Millisecond, add(Frame{}), "20 ms, as Opus frames have")
	require.Equal(t, 1500*time.Millisecond, add(Frame{Timestamp: 3, Timed: true, Timescale: 2}), "another timescale")
	require.Equal(t, 1501*time.Millisecond, add(Frame{Timestamp: 0, Timed: true}), "never backwards")
	_, ok := m.Add(Frame{})
	require.False(t, ok, "an empty frame")
}

func TestNewMuxerErrors(t *testing.T) {
	_, err := NewMuxer(1, catalog.TrackEntry{Name: "a", Codec: "ac-3", Packaging: catalog.LOC})
	require.ErrorContains(t, err, `track a: codec "ac-3" cannot be played from packaging loc`)
	_, err = NewMuxer(1, catalog.TrackEntry{Name: "a", Codec: "mp4a.40.2"})
	require.ErrorContains(t, err, "AAC without a configuration or a sample rate")
}

func TestDisposable(t *testing.T) {
	for name, want := range map[string]string{
		"avc.mp4":  "...dd..dd....dd", // two of three B-frames: the third one is for them
		"hevc.mp4": "...dd..dd.d..dd",
		"av1.mp4":  "...............", // no temporal layers
		"vp9.mp4":  "...............",
	} {
		tracks, samples := clip(t, name)
		d := NewDependency(tracks[0].Codec)
		var got strings.Builder
		for _, s := range samples[1] {
			got.WriteByte(map[bool]byte{true: 'd', false: '.'}[d.Disposable(s.Data)])
		}
		require.Equal(t, want, got.String(), name)
	}
	layered := NewDependency("av01.0.04M.08")
	delimiter := []byte{0x12, 0}
	require.True(t, layered.Disposable(append(delimiter, 0x36, 0x20, 1, 0)), "temporal layer 1")
	require.False(t, layered.Disposable(append(delimiter, 0x36, 0, 1, 0)), "temporal layer 0")
	require.False(t, layered.Disposable([]byte{0x36, 0x20, 9, 0}), "cut")
	require.False(t, layered.Disposable(nil))
}

func TestCheckLengths(t *testing.T) {
	tracks, _ := clip(t, "avc.mp4")
	require.NoError(t, CheckLengths(tracks[0].Codec, tracks[0].Config))
	require.NoError(t, CheckLengths("opus", []byte{1, 2, 3, 4, 5}))
	short := slices.Clone(tracks[0].Config)
	short[4] = 0xfd
	require.ErrorContains(t, CheckLengths(tracks[0].Codec, short), "has 2 bytes for the length of a NAL unit")
}

func FuzzMuxer(f *testing.F) {
	codecs := []string{"avc1.4d401e", "hvc1.1.6.L30.90", "av01.0.04M.08", "vp09.00.10.08", "mp4a.40.2", "opus"}
	for i, name := range []string{"avc.mp4", "hevc.mp4", "av1.mp4", "vp9.mp4"} {
		tracks, samples := clip(f, name)
		for _, s := range samples[1][:3] {
			frame := Frame{Timestamp: uint64(present(s)), Timescale: 12800, Config: tracks[0].Config}
			p, err := frame.Properties(18)
			require.NoError(f, err)
			f.Add(byte(i), byte(0), []byte(p), s.Data, tracks[0].Config)
		}
	}
	f.Add(byte(5), byte(1), []byte(nil), []byte("\x80\x03\x0d\x40frame"), []byte(nil))
	f.Add(byte(4), byte(2), []byte(nil), []byte("\x05\x10\x80\x03\x0d\x40frame"), []byte{0x11, 0x90})
	f.Fuzz(func(t *testing.T, codec, packaging byte, properties, payload, config []byte) {
		testlimit.Run(t, len(properties)+len(payload)+len(config), 1000, func() {
			packagings := []string{catalog.LOC, catalog.HangLegacy, catalog.HangLOC}
			NewDependency(codecs[int(codec)%len(codecs)]).Disposable(payload)
			CountOBUs(payload)
			m, err := NewMuxer(1, catalog.TrackEntry{
				Codec: codecs[int(codec)%len(codecs)], InitData: config, SampleRate: 48000,
			})
			if err != nil {
				return
			}
			for range 2 {
				frame, err := Parse(packagings[int(packaging)%len(packagings)], moqt.Properties(properties), payload)
				if err != nil {
					return
				}
				s, ok := m.Add(frame)
				if !ok {
					return
				}
				b, err := m.Init()
				if err != nil {
					return
				}
				in, err := cmaf.ParseInit(b)
				if err != nil {
					t.Fatalf("init segment: %v", err)
				}
				chunk, err := m.Chunk(s, m.Time(s))
				if err != nil {
					t.Fatalf("chunk: %v", err)
				}
				got, err := in.Samples(chunk)
				if err != nil || len(got) != 1 || !bytes.Equal(got[0].Data, s.payload) {
					t.Fatalf("%+v became %+v, %v", s, got, err)
				}
			}
		})
	})
}
