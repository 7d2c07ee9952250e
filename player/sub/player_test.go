package sub

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/player/cmaf"
)

const hold = 2 * time.Second

// clip is the sample clip, cut into what its publisher would send.
func (p *player) addLane(name string, track *cmaf.TrackInfo, check *verifier) *lane {
	return p.add(&lane{name: name, check: check, source: &source{init: p.init, track: track}})
}

func clip(t *testing.T) (whole []byte, in *cmaf.Init, chunks []cmaf.Chunk) {
	t.Helper()
	whole, err := os.ReadFile("../../testdata/clip.mp4")
	require.NoError(t, err)
	r := cmaf.NewReader(bytes.NewReader(whole))
	in, err = r.Init()
	require.NoError(t, err)
	for {
		c, err := r.Next()
		if err == io.EOF {
			return whole, in, chunks
		}
		require.NoError(t, err)
		chunks = append(chunks, c)
	}
}

// broadcast delivers chunks to a player, as one group of each track.
type broadcast struct {
	t     *testing.T
	p     *player
	lanes map[uint32]*lane
	sent  map[uint32]uint64
}

func newBroadcast(t *testing.T, p *player, in *cmaf.Init) *broadcast {
	b := &broadcast{t: t, p: p, lanes: map[uint32]*lane{}, sent: map[uint32]uint64{}}
	for i := range in.Tracks {
		l := p.addLane("", &in.Tracks[i], nil)
		l.seq.start(at(0, 0))
		b.lanes[in.Tracks[i].ID] = l
	}
	return b
}

func (b *broadcast) send(c cmaf.Chunk) {
	id := b.sent[c.Track]
	b.sent[c.Track]++
	b.deliver(c, id)
}

func (b *broadcast) deliver(c cmaf.Chunk, object uint64) {
	require.NoError(b.t, b.p.update(b.t.Context(), b.lanes[c.Track], func(s *sequencer) {
		s.add(item{location: at(0, object), payload: c.Data, arrived: time.Now()})
	}))
}

type timedWriter struct{ at []time.Time }

func (w *timedWriter) Write(b []byte) (int, error) {
	w.at = append(w.at, time.Now())
	return len(b), nil
}

// All objects are waited for that are missing before what has come, and not one after the other: one outage leaves
// several holes.
func TestPlayerWaitsOnceForSeveralHoles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &timedWriter{}
		p := newPlayer(out, &cmaf.Init{}, hold, limits{})
		l := p.addLane("", nil, nil)
		start := time.Now()
		go func() {
			require.NoError(t, p.update(t.Context(), l, func(s *sequencer) {
				s.start(at(1, 0))
				for _, object := range []uint64{0, 2, 4} {
					s.add(item{location: at(1, object), payload: []byte{1}, arrived: time.Now()})
				}
			}))
			time.Sleep(2 * hold)
			require.NoError(t, p.update(t.Context(), l, (*sequencer).end))
		}()
		require.NoError(t, p.run(t.Context()))
		require.Equal(t, start.Add(hold), out.at[len(out.at)-1])
	})
}

func TestPlayerLimits(t *testing.T) {
	_, in, chunks := clip(t)
	for name, tt := range map[string]struct {
		stop limits
		want int
	}{
		"objects":  {limits{objects: 5}, 5},
		"duration": {limits{duration: 40 * time.Millisecond}, 4}, // video at 0 and 40 ms, audio at 0 and 21 ms
	} {
		t.Run(name, func(t *testing.T) {
			out := &timedWriter{}
			p := newPlayer(out, in, hold, tt.stop)
			b := newBroadcast(t, p, in)
			for _, c := range chunks[:20] {
				b.send(c)
			}
			require.NoError(t, p.run(t.Context()))
			require.Len(t, out.at, tt.want)
		})
	}
}

// TestPlayerLimitWhenATrackBeginsLate counts the duration from where there is media of all tracks: a recording of a
// second must not be all sound, because the current group of the sound began before that of the video.
func TestPlayerLimitWhenATrackBeginsLate(t *testing.T) {
	_, in, chunks := clip(t)
	p := newPlayer(io.Discard, in, hold, limits{duration: 40 * time.Millisecond})
	b := newBroadcast(t, p, in)
	video := &in.Tracks[0]
	for _, c := range chunks[:40] {
		if c.Track != video.ID || video.Time(c.DecodeTime) >= 200*time.Millisecond {
			b.send(c)
		}
	}
	require.NoError(t, p.run(t.Context()))
	require.Equal(t, uint64(2), b.lanes[video.ID].seq.counted.Objects)
}

// A player that cannot write fast enough stops reading, and goes on when there is room.
func TestPlayerSlowsDownItsSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		p := newPlayer(w, &cmaf.Init{}, hold, limits{})
		l := p.addLane("", nil, nil)
		added := 0
		go func() {
			for added < 10 {
				require.NoError(t, p.update(t.Context(), l, func(s *sequencer) {
					s.add(item{
						location: at(0, uint64(added)), payload: make([]byte, maxBuffered/4), arrived: time.Now(),
					})
				}))
				added++
			}
			require.NoError(t, p.update(t.Context(), l, (*sequencer).end))
		}()
		done := make(chan error)
		go func() { done <- p.run(t.Context()) }()
		synctest.Wait()
		require.Less(t, added, 10)
		go func() { _, _ = io.Copy(io.Discard, r) }()
		require.NoError(t, <-done)
		require.Equal(t, 10, added)
		require.NoError(t, r.Close())
	})
}

// A fetch that lacks objects, or does not end, does not stop the player when the live objects behind it take all room.
func TestPlayerGoesOnWithoutAFetch(t *testing.T) {
	for name, begun := range map[string]bool{"at the start": false, "after an interruption": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlayer(io.Discard, &cmaf.Init{}, hold, limits{})
				l := p.addLane("", nil, nil)
				l.seq.fetch(true)
				if begun {
					l.seq.start(at(1, 0))
				}
				done := make(chan error)
				go func() { done <- p.run(t.Context()) }()
				for object := range uint64(10) {
					require.NoError(t, p.update(t.Context(), l, func(s *sequencer) {
						payload := make([]byte, maxBuffered/4)
						s.add(item{location: at(1, 5+object), payload: payload, arrived: time.Now()})
					}))
				}
				require.NoError(t, p.update(t.Context(), l, (*sequencer).end))
				require.NoError(t, <-done)
				require.EqualValues(t, 10, l.seq.counted.Objects)
			})
		})
	}
}

// tight has memory for one object.
type tight struct{ given chan struct{} }

func (m tight) Take(int) bool {
	select {
	case <-m.given:
		return false
	default:
		return true
	}
}

func (m tight) Give(int) { close(m.given) }

// A player that has reached its limit has done so whatever comes later.
func TestPlayerEndsAsMemoryRunsOut(t *testing.T) {
	p := newPlayer(io.Discard, &cmaf.Init{}, hold, limits{objects: 1})
	m := tight{make(chan struct{})}
	p.memory = m
	l := p.addLane("", nil, nil)
	l.seq.start(at(0, 0))
	require.NoError(t, p.update(t.Context(), l, func(s *sequencer) { put(s, at(0, 0)) }))
	done := make(chan error)
	go func() { done <- p.run(t.Context()) }()
	<-m.given
	require.NoError(t, p.update(t.Context(), l, func(s *sequencer) { put(s, at(0, 1)) }))
	require.NoError(t, <-done)
}

func TestPlayerReportsBrokenOutput(t *testing.T) {
	p := newPlayer(brokenWriter{}, &cmaf.Init{}, hold, limits{})
	l := p.addLane("", nil, nil)
	require.NoError(t, p.update(t.Context(), l, func(s *sequencer) { put(s, at(0, 0)) }))
	var out *OutputError
	require.ErrorAs(t, p.run(t.Context()), &out)
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// The player waits for a missing object, and then skips it; a track that stalls does not stop the others.
func TestPlayerGivesUp(t *testing.T) {
	_, in, chunks := clip(t)
	synctest.Test(t, func(t *testing.T) {
		out := &timedWriter{}
		p := newPlayer(out, in, hold, limits{})
		b := newBroadcast(t, p, in)
		video := b.lanes[1]
		start := time.Now()
		go func() {
			for i, c := range chunks[:8] {
				if i == 3 { // the second video frame is lost
					require.Equal(t, uint32(1), c.Track)
					b.sent[1]++
					continue
				}
				b.send(c)
			}
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		require.ErrorIs(t, p.run(ctx), context.DeadlineExceeded)
		require.Len(t, out.at, 7)
		require.Equal(t, time.Duration(0), out.at[2].Sub(start))
		require.Equal(t, hold, out.at[3].Sub(start))
		require.Equal(t, Counters{Objects: 2, Bytes: video.seq.counted.Bytes, Lost: 1, Gaps: 1}, video.seq.counted)
	})
}

func TestVerifier(t *testing.T) {
	whole, _, chunks := clip(t)
	tracks, err := newVerifiers(bytes.NewReader(whole))
	require.NoError(t, err)
	v := tracks[1]
	require.Len(t, v.want, 250)
	var video [][]byte
	for _, c := range chunks {
		if c.Track == 1 {
			video = append(video, c.Data)
		}
	}
	v.add(video[10]) // joined late: what came before is not missing
	v.add(video[11])
	v.add(video[14])
	v.add(video[3])
	v.add([]byte("other"))
	require.Equal(t, []int{3, 2, 2}, []int{v.same, v.differ, v.missing})
	v.finish()
	require.Equal(t, 2+250-15, v.missing)
	_, err = newVerifiers(bytes.NewReader(whole[:99]))
	require.ErrorContains(t, err, "file to verify against")
}
