package sub

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/player/client/clienttest"
	"sluice/player/pub"
)

const layered, plain = "1.layers.m4s", "1.m4s"

// streams counts the streams of each track that a relay passes on, and then tampers with them.
type streams struct {
	then func(moqt.FullTrackName, moqt.SubgroupHeader, io.Reader) io.Reader

	mu    sync.Mutex
	count map[string]int
}

func (s *streams) tamper(track moqt.FullTrackName, h moqt.SubgroupHeader, stream io.Reader) io.Reader {
	s.mu.Lock()
	if s.count == nil {
		s.count = make(map[string]int)
	}
	s.count[track.Name]++
	s.mu.Unlock()
	if s.then == nil {
		return stream
	}
	return s.then(track, h, stream)
}

func (s *streams) of(track string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[track]
}

// Where the layers of video do not arrive, a player goes on with the track that has whole groups, and loses nothing.
func TestPlayWithoutLayers(t *testing.T) {
	whole, _, _ := clip(t)
	for name, r := range map[string]*clienttest.Relay{
		"the track is refused":         {Refused: []string{layered}},
		"the track ends at once":       {Broken: []string{layered}},
		"other subgroups are dropped":  {Tamper: onlyFirstSubgroup},
		"and the next group overtakes": {Tamper: overtaken},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := &streams{then: r.Tamper}
				r.Tamper = seen.tamper
				done := publish(t, r, pub.PublisherConfig{Wait: true})
				got, result := play(t, r, PlayerConfig{Verify: bytes.NewReader(whole), Hold: 5 * time.Second})
				require.True(t, result.Verified(), "%+v", result)
				require.True(t, bytes.Equal(whole, got))
				require.Zero(t, result.Tracks[0].Gaps)
				require.Equal(t, 5, seen.of(plain), "of five groups")
				require.NoError(t, <-done)
			})
		})
	}
}

// A player whose layers have arrived keeps them, also if its session is lost.
func TestPlayKeepsLayers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &streams{}
		r := &clienttest.Relay{Tamper: seen.tamper}
		done := publish(t, r, pub.PublisherConfig{Wait: true})
		var before int
		time.AfterFunc(4500*time.Millisecond, func() {
			before = seen.of(layered)
			r.Sessions()[1].Close(moqt.SessionInternalError, "the relay crashed") // the player's
		})
		play(t, r, PlayerConfig{})
		require.NoError(t, <-done)
		require.Greater(t, seen.of(layered), before)
		require.Zero(t, seen.of(plain))
	})
}

// onlyFirstSubgroup empties all streams of the track in layers but the first subgroup's.
func onlyFirstSubgroup(track moqt.FullTrackName, h moqt.SubgroupHeader, stream io.Reader) io.Reader {
	if track.Name == layered && h.SubgroupID > 0 {
		return strings.NewReader("")
	}
	return stream
}

// overtaken also delays the rest of the first group on the other track, until the next group has come.
func overtaken(track moqt.FullTrackName, h moqt.SubgroupHeader, stream io.Reader) io.Reader {
	if track.Name == plain && h.GroupID == 0 {
		time.Sleep(3 * time.Second)
	}
	return onlyFirstSubgroup(track, h, stream)
}
