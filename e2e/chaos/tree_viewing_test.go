package chaos

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// span is a time in which media may be lost: what is due then, and what was under way when it began.
type span struct {
	from, to time.Time
	why      string
	node     int // whose viewers may lose it
	missing  int // objects that were lost in it
}

// everywhere stands for all nodes.
const everywhere = -1

// spans are several, in any order.
type spans []*span

// of returns those for a viewer who was at some nodes.
func (all spans) of(nodes []int) (some spans) {
	for _, s := range all {
		if s.node == everywhere || slices.Contains(nodes, s.node) {
			some = append(some, s)
		}
	}
	return some
}

// excuse reports whether a chunk that is missing from a track, and was due at a time, may be lost in one of the spans,
// and counts it there.
func (all spans) excuse(t *viewed, chunk int, due time.Time) bool {
	for _, s := range all {
		if !due.After(s.to) && (!due.Before(s.from) || t.underWay(chunk, s.from)) {
			s.missing++
			return true
		}
	}
	return false
}

// String tells what was lost, and why.
func (all spans) String() string {
	var parts []string
	for _, s := range all {
		if s.missing > 0 {
			parts = append(parts, fmt.Sprintf("%d as %s", s.missing, s.why))
		}
	}
	return strings.Join(parts, ", ")
}

// judge returns what is wrong with what one viewer has received of a clip that began at a time: a group without an
// object that has a later one, or an object that is missing although nothing happened when it was due. If the viewer
// has seen the end, nothing may be missing there either.
func (v *viewing) judge(began time.Time, excused spans, end bool) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	var errs []error
	for track, t := range v.tracks {
		missing, err := t.missingTails()
		if last := v.clip.counts[track] - 1; end && t.last < last {
			missing = append(missing, [2]int{t.last + 1, last})
		}
		errs = append(errs, err)
		for _, m := range missing {
			for i := m[0]; i <= m[1]; i++ {
				if !excused.excuse(t, i, began.Add(v.clip.due[track][i])) {
					errs = append(errs, fmt.Errorf("%s: chunk %d is missing, of %d to %d; it was due after %v", track,
						i, m[0], m[1], v.clip.due[track][i]))
					break
				}
			}
		}
	}
	return errors.Join(errs...)
}

// underWay reports whether a chunk that was due before a time, and has never arrived, may have been on its way then. On
// a busy machine, and behind links that lose packets, that is a while, so it is told from what had arrived: the end of
// a group may come after the beginning of the next one, but not after those of two.
func (t *viewed) underWay(chunk int, at time.Time) bool {
	var begun []int // the groups of which something had arrived
	for object, arrival := range t.objects {
		if base := t.bases[object[0]]; arrival.Before(at) && !slices.Contains(begun, base) {
			begun = append(begun, base)
		}
	}
	slices.Sort(begun)
	return len(begun) < 2 || chunk >= begun[len(begun)-2]
}

// missingTails returns the runs of chunks between the first and the last one that are missing: the ends of groups, and
// whole groups. A group that lacks others is an error.
func (t *viewed) missingTails() (missing [][2]int, err error) {
	next := -1
	for i, group := range slices.Sorted(maps.Keys(t.bases)) {
		first, last, count := ^uint64(0), uint64(0), 0
		for at := range t.objects {
			if at[0] == group {
				first, last, count = min(first, at[1]), max(last, at[1]), count+1
			}
		}
		if i > 0 && first > 0 || int(last-first)+1 != count {
			return nil, fmt.Errorf("group %d is not a prefix: %d objects of %d to %d", group, count, first, last)
		}
		begin := t.bases[group] + int(first)
		if next >= 0 && begin > next {
			missing = append(missing, [2]int{next, begin - 1})
		}
		next = t.bases[group] + int(last) + 1
	}
	return missing, nil
}

// TestSpansOf excuses viewers by where they are.
func TestSpansOf(t *testing.T) {
	all := spans{{why: "a", node: 3}, {why: "b", node: everywhere}}
	require.Equal(t, all, all.of([]int{1, 3}))
	require.Equal(t, all[1:], all.of([]int{1}))
}

// TestJudge takes objects, ends of groups and groups away.
func TestJudge(t *testing.T) {
	const groups, size = 6, 5
	c := &clip{
		places: make(map[string]place), counts: map[string]int{"v": groups * size}, due: make(map[string]times),
	}
	var lines []string
	for i := range groups * size {
		hash := fmt.Sprintf("%04x", i)
		c.places[hash] = place{"v", i}
		c.due["v"] = append(c.due["v"], time.Duration(i)*time.Second)
		lines = append(lines,
			fmt.Sprintf("v group=%d object=%d subgroup=0 priority=1 bytes=2 sha256=%s", i/size, i%size, hash))
	}
	began := time.Unix(1000, 0)
	at := func(from, to int) spans {
		return spans{{
			from: began.Add(time.Duration(from) * time.Second), to: began.Add(time.Duration(to) * time.Second),
		}}
	}
	for name, tt := range map[string]struct {
		lines   []string
		excused spans
		end     bool
		want    string
	}{
		"all":                       {lines, nil, true, ""},
		"from the middle of one on": {lines[3:], nil, true, ""},
		"a tail":                    {slices.Concat(lines[:8], lines[10:]), nil, true, "chunk 8 is missing, of 8 to 9"},
		"an excused tail":           {slices.Concat(lines[:8], lines[10:]), at(8, 9), true, ""},
		"a tail, partly excused":    {slices.Concat(lines[:8], lines[10:]), at(7, 8), true, "chunk 9 is missing"},
		"a tail that was under way": {slices.Concat(lines[:8], lines[10:]), at(14, 15), true, ""},
		"a tail of long before":     {slices.Concat(lines[:8], lines[10:]), at(16, 17), true, "chunk 8 is missing"},
		"a group":                   {slices.Concat(lines[:10], lines[15:]), at(9, 13), true, "chunk 14 is missing"},
		"an excused group":          {slices.Concat(lines[:10], lines[15:]), at(9, 15), true, ""},
		"a hole":                    {slices.Concat(lines[:7], lines[8:]), at(0, 30), true, "group 1 is not a prefix"},
		"a beginning":               {slices.Concat(lines[:5], lines[6:]), at(0, 30), true, "group 1 is not a prefix"},
		"the end":                   {lines[:29], nil, true, "chunk 29 is missing"},
		"the end, as it was ended":  {lines[:29], nil, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := newViewing(c)
			for _, line := range tt.lines {
				require.NoError(t, v.take(line))
			}
			for object := range v.tracks["v"].objects {
				v.tracks["v"].objects[object] = began.Add(time.Duration(object[0]*size+object[1]) * time.Second)
			}
			err := v.judge(began, tt.excused, tt.end)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
}
