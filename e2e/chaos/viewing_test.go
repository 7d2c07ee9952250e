package chaos

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/cli/clitest"
	"sluice/moqt"
	"sluice/player/cmaf"
)

// clip is the media that all honest publishers publish, from its beginning.
type clip struct {
	file   []byte
	places map[string]place // by the SHA-256 of the chunk
	counts map[string]int   // of chunks, by track
}

// place is where a chunk belongs.
type place struct {
	track string
	index int
}

func newClip(duration time.Duration) (*clip, error) {
	parts, err := clitest.CutClip(duration)
	if err != nil {
		return nil, err
	}
	c := &clip{
		file: bytes.Join(parts, nil), places: make(map[string]place), counts: make(map[string]int),
	}
	reader := cmaf.NewReader(bytes.NewReader(c.file))
	if _, err := reader.Init(); err != nil {
		return nil, err
	}
	for {
		chunk, err := reader.Next()
		if err == io.EOF {
			return c, nil
		}
		if err != nil {
			return nil, err
		}
		track, hash := fmt.Sprintf("%d.m4s", chunk.Track), fmt.Sprintf("%x", sha256.Sum256(chunk.Data))
		if _, ok := c.places[hash]; ok {
			return nil, errors.New("two chunks are equal")
		}
		c.places[hash] = place{track, c.counts[track]}
		c.counts[track]++
	}
}

// viewing compares the objects that one subscriber receives, which sluice sub --raw lists, with a clip.
type viewing struct {
	clip *clip

	mu       sync.Mutex
	tracks   map[string]*viewed
	repeated []objects // From alone
}

// viewed is what has been received of a track.
type viewed struct {
	bases   map[uint64]int     // by group: the index of its object 0
	objects map[[2]uint64]bool // that have arrived, by group and object
	first   int                // index
}

func newViewing(c *clip) *viewing { return &viewing{clip: c, tracks: make(map[string]*viewed)} }

// take takes a line. An object must have the bytes that were published in its place.
func (v *viewing) take(line string) error {
	var track, hash string
	var group, object, subgroup, priority, size uint64
	if _, err := fmt.Sscanf(line, "%s group=%d object=%d subgroup=%d priority=%d bytes=%d sha256=%s", &track, &group,
		&object, &subgroup, &priority, &size, &hash); err != nil {
		return fmt.Errorf("not an object: %q: %w", line, err)
	}
	p, ok := v.clip.places[hash]
	if !ok || p.track != track {
		return fmt.Errorf("bytes that were not published: %s", line)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	t := v.tracks[track]
	if t == nil {
		t = &viewed{bases: make(map[uint64]int), objects: make(map[[2]uint64]bool), first: p.index}
		v.tracks[track] = t
	}
	base := p.index - int(object)
	if known, ok := t.bases[group]; ok && known != base {
		return fmt.Errorf("chunk %d is in another's place: object 0 of its group is chunk %d: %s", p.index, known,
			line)
	}
	at := [2]uint64{group, object}
	if t.objects[at] {
		v.repeated = append(v.repeated, objects{moqt.FullTrackName{Name: track}, group, object})
	}
	t.bases[group], t.objects[at] = base, true
	t.first = min(t.first, p.index)
	return nil
}

// groups returns how many groups of a track have begun.
func (v *viewing) groups(track string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	if t := v.tracks[track]; t != nil {
		return len(t.bases)
	}
	return 0
}

// complete returns an error unless everything was received once, from the first object that was to the end of the clip,
// but for what relays have left out, or may send twice. whole says that this is the first of the clip.
func (v *viewing) complete(whole bool, omitted, twice []objects) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, r := range v.repeated {
		if !slices.ContainsFunc(twice, func(o objects) bool {
			return slices.Contains([]string{"", r.Track.Name}, o.Track.Name) && o.Group == r.Group && o.From <= r.From
		}) {
			return fmt.Errorf("object %d of group %d of %s came twice", r.From, r.Group, r.Track.Name)
		}
	}
	for track, count := range v.clip.counts {
		t := v.tracks[track]
		if t == nil {
			return fmt.Errorf("nothing of %s has arrived", track)
		}
		if whole {
			t.first = 0
		}
		ofOthers := func(o objects) bool { return o.Track.Name != track }
		if runs := t.missing(count, slices.DeleteFunc(slices.Clone(omitted), ofOthers)); len(runs) > 0 {
			return fmt.Errorf("%s: %d of the chunks %d to %d have arrived, and none of %v", track, len(t.objects),
				t.first, count-1, runs)
		}
	}
	return nil
}

// objects are those of a track that a relay has left out, or may send twice, to somebody: of a group, from one on.
type objects struct {
	Track       moqt.FullTrackName
	Group, From uint64
}

// missing returns the runs of chunks that have not arrived, as pairs of the first and the last one.
func (t *viewed) missing(count int, omitted []objects) (runs [][2]int) {
	arrived := make(map[int]bool)
	for at := range t.objects {
		arrived[t.bases[at[0]]+int(at[1])] = true
	}
	for i := t.first; i < count; i++ {
		switch {
		case arrived[i] || t.mayLack(i, omitted):
		case len(runs) > 0 && runs[len(runs)-1][1] == i-1:
			runs[len(runs)-1][1] = i
		default:
			runs = append(runs, [2]int{i, i})
		}
	}
	return runs
}

// mayLack reports whether a relay may have left a chunk out. It belongs to the latest group that began before it, or to
// a later one of which nothing has arrived: then which one is not known, and any that was left out counts.
func (t *viewed) mayLack(i int, omitted []objects) bool {
	before, after := uint64(0), uint64(math.MaxUint64)
	for group, base := range t.bases {
		if base <= i {
			before = max(before, group)
		} else {
			after = min(after, group)
		}
	}
	return slices.ContainsFunc(omitted, func(o objects) bool {
		return o.Group == before && i-t.bases[before] >= int(o.From) || before < o.Group && o.Group < after
	})
}

// count returns how many objects have arrived.
func (v *viewing) count() (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, t := range v.tracks {
		n += len(t.objects)
	}
	return n
}

// TestViewing loses, repeats, changes and moves objects: each is noticed.
func TestViewing(t *testing.T) {
	c, err := newClip(2 * time.Second)
	require.NoError(t, err)
	var lines []string // groups of 5
	hashes := make(map[place]string)
	for hash, p := range c.places {
		hashes[p] = hash
	}
	for track, count := range c.counts {
		for i := range count {
			lines = append(lines, fmt.Sprintf("%s group=%d object=%d subgroup=0 priority=1 bytes=2 sha256=%s", track,
				i/5, i%5, hashes[place{track, i}]))
		}
	}
	take := func(lines ...string) (*viewing, error) {
		v := newViewing(c)
		for _, line := range lines {
			if err := v.take(line); err != nil {
				return v, err
			}
		}
		return v, nil
	}
	v, err := take(lines...)
	require.NoError(t, err)
	require.NoError(t, v.complete(true, nil, nil))
	require.Equal(t, len(lines), v.count())

	v, err = take(append(lines[:7:7], lines[8:]...)...)
	require.NoError(t, err)
	require.ErrorContains(t, v.complete(false, nil, nil), "have arrived, and none of [[7 7]]")
	name, _, _ := strings.Cut(lines[0], " ")
	omit := func(group, from uint64) objects { return objects{moqt.FullTrackName{Name: name}, group, from} }
	require.Error(t, v.complete(false, []objects{omit(1, 3), omit(0, 0), omit(2, 0), {Group: 1}}, nil))
	require.NoError(t, v.complete(false, []objects{omit(1, 2)}, nil))
	v, err = take(append(lines[:5:5], lines[10:]...)...) // without group 1
	require.NoError(t, err)
	require.ErrorContains(t, v.complete(false, nil, nil), "none of [[5 9]]")
	require.Error(t, v.complete(false, []objects{omit(2, 0)}, nil))
	require.NoError(t, v.complete(false, []objects{omit(1, 0)}, nil))
	v, err = take(lines[1:]...)
	require.NoError(t, err)
	require.NoError(t, v.complete(false, nil, nil))
	require.ErrorContains(t, v.complete(true, nil, nil), "none of [[0 0]]")
	v, err = take(lines[:len(lines)-1]...)
	require.NoError(t, err)
	require.ErrorContains(t, v.complete(true, nil, nil), "none of [[")

	v, err = take(append(lines[:3:3], lines[2:]...)...)
	require.NoError(t, err)
	require.ErrorContains(t, v.complete(true, nil, []objects{omit(0, 3), omit(1, 0)}), "object 2 of group 0")
	require.NoError(t, v.complete(true, nil, []objects{omit(0, 1)}))
	_, err = take(lines[0], strings.Replace(lines[7], "object=2", "object=3", 1), lines[6])
	require.ErrorContains(t, err, "another's place")
	_, err = take(lines[0][:len(lines[0])-2] + "zz")
	require.ErrorContains(t, err, "not published")
	_, err = take("1.m4s group=")
	require.ErrorContains(t, err, "not an object")
}
