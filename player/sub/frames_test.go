package sub

import (
	"bytes"
	"io"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/player/catalog"
	"sluice/player/client/clienttest"
	"sluice/player/cmaf"
	"sluice/player/loc"
	"sluice/player/pub"
)

// frame is what has to survive of a sample when it goes without a container.
type frame struct {
	track   string // codec
	present int64
	sync    bool
	data    string
}

// framesOf returns the samples of a file by its tracks' codecs, in the order of decoding.
func framesOf(t *testing.T, file []byte) map[string][]frame {
	t.Helper()
	r := cmaf.NewReader(bytes.NewReader(file))
	in, err := r.Init()
	require.NoError(t, err)
	all := map[string][]frame{}
	for {
		c, err := r.Next()
		if err == io.EOF {
			return all
		}
		require.NoError(t, err)
		samples, err := in.Samples(c.Data)
		require.NoError(t, err)
		codec := in.Track(c.Track).Codec
		for _, s := range samples {
			all[codec] = append(all[codec], frame{codec, int64(s.DecodeTime) + int64(s.Offset), s.Sync, string(s.Data)})
		}
	}
}

// Frames without a container become the file that they were taken from: the same frames, shown at the same times.
func TestPlayFrames(t *testing.T) {
	for _, file := range []string{
		"../../testdata/clip.mp4", "../loc/testdata/avc.mp4", "../loc/testdata/hevc.mp4", "../loc/testdata/av1.mp4",
	} {
		t.Run(file, func(t *testing.T) {
			whole, err := os.ReadFile(file)
			require.NoError(t, err)
			synctest.Test(t, func(t *testing.T) {
				r := &clienttest.Relay{}
				done := publish(t, r, pub.PublisherConfig{
					Wait: true, Packaging: catalog.LOC,
					Open: func() (io.ReadCloser, error) { return os.Open(file) },
				})
				got, result := play(t, r, PlayerConfig{Verify: bytes.NewReader(whole)})
				require.True(t, result.Verified(), "%+v", result)
				require.Equal(t, "1.loc", result.Tracks[0].Name)
				want, played := framesOf(t, whole), framesOf(t, got)
				require.Len(t, played, 2)
				shift := shiftOf(want, played)
				for codec, frames := range want {
					require.Len(t, played[codec], len(frames))
					for i := range frames {
						frames[i].present += shift[codec]
						require.Equal(t, frames[i], played[codec][i], "frame %d", i)
					}
				}
				require.NoError(t, <-done)
			})
		})
	}
}

// TestTrackThatIsOff plays without a track that has nothing to show at the start. Playback does not wait for its end.
func TestTrackThatIsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newPlayer(&out, nil, hold, limits{})
		p.headed = false
		var lanes []*lane
		for id := range uint32(2) {
			s, err := newSource(choice{entry: catalog.TrackEntry{
				Packaging: catalog.LOC, Codec: "opus", SampleRate: 48_000, Channels: "1",
			}}, id+1)
			require.NoError(t, err)
			lanes = append(lanes, p.add(&lane{source: s, id: id + 1}))
			lanes[id].seq.start(at(0, 0))
		}
		send := func(l *lane, object uint64) {
			f := loc.Frame{Timestamp: object * 960, Timed: true, Timescale: 48_000, Payload: []byte{0xf8, 0xff, 0xfe}}
			properties, err := f.Properties(moqt.Draft22)
			require.NoError(t, err)
			require.NoError(t, p.update(t.Context(), l, func(s *sequencer) {
				s.add(item{location: at(0, object), payload: f.Payload, properties: properties, arrived: time.Now()})
			}))
		}
		ended := make(chan error)
		go func() { ended <- p.run(t.Context()) }()
		send(lanes[0], 0)
		time.Sleep(minStartTimeout - time.Second)
		require.Zero(t, p.snapshot().Objects)
		time.Sleep(time.Second)
		synctest.Wait()
		require.NotZero(t, out.Len())
		require.Error(t, lanes[1].listed.Err(), "it is subscribed to again")

		send(lanes[1], 0) // the output has no such track
		send(lanes[0], 1)
		require.NoError(t, p.update(t.Context(), lanes[0], (*sequencer).end))
		require.NoError(t, <-ended)
		r := cmaf.NewReader(&out)
		in, err := r.Init()
		require.NoError(t, err)
		require.Len(t, in.Tracks, 1)
		for range 2 {
			c, err := r.Next()
			require.NoError(t, err)
			require.EqualValues(t, 1, c.Track)
		}
		_, err = r.Next()
		require.ErrorIs(t, err, io.EOF)
	})
}

// A track that is left out is not subscribed to any more.
func TestTrackThatIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var latest atomic.Uint64
		r := &clienttest.Relay{
			Refuse: map[moqt.MessageType]*moqt.RequestError{ // it would bring the track in time
				moqt.MessageFetch: {Code: moqt.RequestNotSupported},
			},
			Tamper: func(track moqt.FullTrackName, h moqt.SubgroupHeader, s io.Reader) io.Reader {
				if track.Name == "2.loc" {
					latest.Store(h.GroupID)
					time.Sleep(minStartTimeout + 5*time.Second)
				}
				return s
			},
		}
		publish(t, r, pub.PublisherConfig{Wait: true, Loop: true, Packaging: catalog.LOC})
		out, result := play(t, r, PlayerConfig{Duration: 30 * time.Second})
		require.Less(t, latest.Load(), uint64(10), "groups of two seconds")
		require.Zero(t, result.Tracks[1].Objects)
		m := cmaf.NewReader(bytes.NewReader(out))
		in, err := m.Init()
		require.NoError(t, err)
		require.Len(t, in.Tracks, 1)
	})
}

// shiftOf returns by how much a track starts later than in the file: a library places the decode times of reordered
// frames before the first picture.
func shiftOf(want, got map[string][]frame) map[string]int64 {
	shift := map[string]int64{}
	for codec := range want {
		shift[codec] = got[codec][0].present - want[codec][0].present
	}
	return shift
}

func TestNumber(t *testing.T) {
	choices := make([]choice, 5)
	for i, name := range []string{"1.m4s", "2.loc", "video/hd", "2", "1.loc"} {
		choices[i].name.Name, choices[i].entry.Packaging = name, catalog.LOC
	}
	choices[0].entry.Packaging, choices[0].id = catalog.CMAF, 1
	number(choices)
	var ids []uint32
	for _, c := range choices {
		ids = append(ids, c.id)
	}
	require.Equal(t, []uint32{1, 2, 3, 4, 5}, ids)
}
