package sub

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
	"sluice/moqt"
)

func at(group, object uint64) moqt.Location { return moqt.Location{Group: group, Object: object} }

func put(s *sequencer, locations ...moqt.Location) {
	for _, l := range locations {
		s.add(item{location: l, payload: []byte{1}})
	}
}

// take pops everything that is ready and returns the state after it.
func take(s *sequencer) (out []moqt.Location, st state) {
	for {
		i, st := s.head()
		if st != ready {
			return out, st
		}
		s.pop(i)
		out = append(out, i.location)
	}
}

func TestSequencer(t *testing.T) {
	type want struct {
		out   []moqt.Location
		state state
	}
	for name, tt := range map[string]struct {
		do      func(*sequencer)
		want    want
		counted Counters
	}{
		"nothing yet":  {func(*sequencer) {}, want{nil, waiting}, Counters{}},
		"nothing ever": {func(s *sequencer) { s.end() }, want{nil, over}, Counters{}},
		"in order": {
			func(s *sequencer) { put(s, at(3, 0), at(3, 1)) }, want{[]moqt.Location{at(3, 0), at(3, 1)}, waiting},
			Counters{Objects: 2, Bytes: 2},
		},
		"out of order": {
			func(s *sequencer) { put(s, at(3, 1), at(3, 0)) }, want{[]moqt.Location{at(3, 0), at(3, 1)}, waiting},
			Counters{Objects: 2, Bytes: 2},
		},
		"twice": {
			func(s *sequencer) { put(s, at(3, 0), at(3, 0)) }, want{[]moqt.Location{at(3, 0)}, waiting},
			Counters{Objects: 1, Bytes: 1, Duplicates: 1},
		},
		"joined mid-group": {func(s *sequencer) { put(s, at(3, 5)) }, want{nil, blocked}, Counters{}},
		"waits for the fetch": {func(s *sequencer) {
			s.start(at(3, 0))
			s.fetch(true)
			put(s, at(3, 5))
		}, want{nil, waiting}, Counters{}},
		"fetch and subscription": {func(s *sequencer) {
			s.start(at(3, 0))
			s.fetch(true)
			put(s, at(3, 2), at(3, 0), at(3, 1))
			s.fetch(false)
		}, want{[]moqt.Location{at(3, 0), at(3, 1), at(3, 2)}, waiting}, Counters{Objects: 3, Bytes: 3}},
		"two fetches at a time": {func(s *sequencer) {
			var before, after fetched // of the session before and of that which replaces it
			s.fetch(true)
			s.fetch(true)
			s.start(at(3, 0))
			before.add(s, item{location: at(3, 0), payload: []byte{1}})
			after.add(s, item{location: at(4, 0), payload: []byte{1}})
			take(s)
			before.add(s, item{location: at(3, 1), payload: []byte{1}})
			before.reach(s, 4)
		}, want{[]moqt.Location{at(3, 1), at(4, 0)}, waiting}, Counters{Objects: 3, Bytes: 3}},
		"before the start": {func(s *sequencer) {
			s.start(at(3, 0))
			put(s, at(2, 9), at(3, 0))
		}, want{[]moqt.Location{at(3, 0)}, waiting}, Counters{Objects: 1, Bytes: 1, Late: 1}},
		"marked end of group": {func(s *sequencer) {
			put(s, at(3, 0), at(4, 0))
			s.endGroup(3, 1, true)
		}, want{[]moqt.Location{at(3, 0), at(4, 0)}, waiting}, Counters{Objects: 2, Bytes: 2}},
		"marked end of group, and the publisher starts again": {func(s *sequencer) {
			put(s, at(3, 0), at(1000, 0))
			s.endGroup(3, 1, true)
		}, want{[]moqt.Location{at(3, 0)}, blocked}, Counters{Objects: 1, Bytes: 1}},
		"unmarked end of group, streams finished": {func(s *sequencer) {
			s.openStream(3)
			put(s, at(3, 0), at(4, 0))
			s.closeStream(3, true)
		}, want{[]moqt.Location{at(3, 0), at(4, 0)}, waiting}, Counters{Objects: 2, Bytes: 2}},
		"unmarked end of group, while more is fetched": {func(s *sequencer) {
			s.start(at(3, 0))
			s.fetch(true)
			s.openStream(3)
			put(s, at(3, 0), at(3, 1), at(4, 0))
			s.closeStream(3, true)
		}, want{[]moqt.Location{at(3, 0), at(3, 1)}, waiting}, Counters{Objects: 2, Bytes: 2}},
		"unmarked end of group, stream open": {func(s *sequencer) {
			s.openStream(3)
			put(s, at(3, 0), at(4, 0))
		}, want{[]moqt.Location{at(3, 0)}, blocked}, Counters{Objects: 1, Bytes: 1}},
		"unmarked end of group, first object apart": {func(s *sequencer) {
			s.apart = true
			s.openStream(3)
			put(s, at(3, 0), at(4, 0))
			s.closeStream(3, true)
		}, want{[]moqt.Location{at(3, 0)}, blocked}, Counters{Objects: 1, Bytes: 1}},
		"unmarked end of group, more than the first object": {func(s *sequencer) {
			s.apart = true
			s.openStream(3)
			put(s, at(3, 0), at(3, 1), at(4, 0))
			s.closeStream(3, true)
		}, want{[]moqt.Location{at(3, 0), at(3, 1), at(4, 0)}, waiting}, Counters{Objects: 3, Bytes: 3}},
		"unmarked groups of one object are waited for once": {func(s *sequencer) {
			s.apart = true
			for group := range uint64(3) {
				s.openStream(group)
				put(s, at(group, 0))
				s.closeStream(group, true)
			}
			i, _ := s.head()
			s.pop(i)
			s.skip()
		}, want{[]moqt.Location{at(1, 0), at(2, 0)}, waiting}, Counters{Objects: 3, Bytes: 3}},
		"stream reset": {func(s *sequencer) {
			s.openStream(3)
			put(s, at(3, 0), at(4, 0))
			s.closeStream(3, false)
		}, want{[]moqt.Location{at(3, 0)}, blocked}, Counters{Objects: 1, Bytes: 1}},
		"other groups are marked": {func(s *sequencer) {
			s.endGroup(9, 9, true)
			s.start(at(3, 0))
			s.openStream(3)
			put(s, at(3, 0), at(4, 0))
			s.closeStream(3, true)
		}, want{[]moqt.Location{at(3, 0)}, blocked}, Counters{Objects: 1, Bytes: 1}},
		"skipped within a group": {func(s *sequencer) {
			put(s, at(3, 5))
			s.head()
			s.skip()
		}, want{[]moqt.Location{at(3, 5)}, waiting}, Counters{Objects: 1, Bytes: 1, Gaps: 1, Lost: 5}},
		"skipped to another group": {func(s *sequencer) {
			s.start(at(3, 0))
			s.endGroup(3, 4, true)
			put(s, at(3, 0), at(5, 2))
			take(s)
			s.skip()
		}, want{[]moqt.Location{at(5, 2)}, waiting}, Counters{Objects: 2, Bytes: 2, Gaps: 1, Lost: 5}},
		"skipping an unmarked end is no gap": {func(s *sequencer) {
			put(s, at(3, 0), at(4, 0))
			take(s)
			s.skip()
		}, want{[]moqt.Location{at(4, 0)}, waiting}, Counters{Objects: 2, Bytes: 2}},
		"nothing to skip to": {func(s *sequencer) {
			s.start(at(3, 0))
			s.skip()
		}, want{nil, waiting}, Counters{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSequencer()
			tt.do(s)
			out, st := take(s)
			require.Equal(t, tt.want, want{out, st})
			require.Equal(t, tt.counted, s.counted)
		})
	}
}

func TestSequencerForgetsWhatCameBeforeTheStart(t *testing.T) {
	s := newSequencer()
	put(s, at(1, 0), at(2, 0), at(3, 0))
	s.start(at(3, 0))
	require.Equal(t, 1+itemOverhead, s.bytes)
	require.Len(t, s.groups, 1)
	out, _ := take(s)
	require.Equal(t, []moqt.Location{at(3, 0)}, out)
	require.Zero(t, s.bytes)
}

// A peer that opens streams of ever new groups gets no memory for them.
func TestSequencerFollowsFewGroups(t *testing.T) {
	s := newSequencer()
	for group := range uint64(3 * maxGroups) {
		s.openStream(group)
		put(s, at(group, 0))
		s.closeStream(group, true)
	}
	require.Len(t, s.groups, maxGroups)
	require.Equal(t, maxGroups*(1+itemOverhead), s.bytes)
}

// Each object costs little, although there is a gap before it and the last one comes first.
func TestSequencerSkipsManyGaps(t *testing.T) {
	const objects = 1 << 17
	testlimit.Run(t, objects, 1000, func() {
		s := newSequencer()
		s.start(at(3, 0))
		for i := range uint64(objects) {
			put(s, at(3, 2*(objects-i)))
		}
		for range objects {
			s.skip()
			i, st := s.head()
			require.Equal(t, ready, st)
			s.pop(i)
		}
		require.Equal(t, Counters{Objects: objects, Bytes: objects, Gaps: objects, Lost: objects + 1}, s.counted)
	})
}
