package track

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

// ids returns a filter that objects with ids of one of the ranges pass.
func ids(ranges ...moqt.ValueRange) moqt.RangeFilters {
	return moqt.RangeFilters{{Type: moqt.ParameterObjectIDFilter, Ranges: ranges}}
}

// upToID returns the form with objects with ids up to n.
func upToID(n uint64) Form { return Form{Filters: ids(moqt.ValueRange{Last: n})} }

// passing returns those objects that pass filters.
func passing(s *Segment, filters moqt.RangeFilters, all []testObject) (some []testObject) {
	for _, o := range all {
		if filters.Pass(&moqt.FilteredObject{
			Subgroup: s.Subgroup, ID: o.id, Priority: s.Priority, Properties: moqt.Properties(o.props),
		}) {
			some = append(some, o)
		}
	}
	return some
}

// content parses all of the log of a derived segment, which is complete, and looks its objects up.
func content(t *testing.T, s *Segment) (objects []testObject) {
	t.Helper()
	b := readAll(t, s.Log, 0)
	h := moqt.SubgroupHeader{GroupID: s.Group, HasProperties: s.HasProperties}
	p := moqt.NewSubgroupParser(s.form.Layout, h, 0)
	for rest := b; ; {
		o, n, err := p.Next(rest)
		if err != nil {
			require.ErrorIs(t, err, moqt.ErrIncomplete)
			require.NoError(t, p.Finish())
			return objects
		}
		rest = rest[n:]
		k := testObject{o.ObjectID, string(o.Properties), string(rest[:o.PayloadLength]), o.Status}
		objects = append(objects, k)
		held, ok := s.Log.Seek(k.id)
		require.True(t, ok)
		require.Equal(t, []int64{o.Start, o.IDEnd, o.PayloadStart, o.End},
			[]int64{held.Start, held.IDEnd, held.PayloadStart, held.End})
		require.Equal(t, []any{k.id, k.status}, []any{held.ID, held.Status})
	}
}

// TestDerive derives segments after each byte of a stream.
func TestDerive(t *testing.T) {
	var marked, unmarked []byte
	for i, p := range []*[]byte{&marked, &unmarked} {
		properties, err := moqt.NewProperties(moqt.KeyValuePair{Type: 0x40, Value: uint64(70 + i)})
		require.NoError(t, err)
		*p = properties
	}
	header := moqt.SubgroupHeader{GroupID: 7, FirstObject: true, HasProperties: true}
	all := append(objects(0, 1, 5, 6, 300), testObject{id: 301, props: string(marked), payload: "marked"},
		testObject{id: 302, props: string(unmarked)}, testObject{id: 303, status: moqt.StatusEndOfGroup})
	b := encode(header, all...)
	only70 := []moqt.ValueRange{{First: 70, Last: 70}}
	for name, filters := range map[string]moqt.RangeFilters{
		"some":   ids(moqt.ValueRange{First: 1, Last: 5}, moqt.ValueRange{First: 302, Last: 302}),
		"last":   ids(moqt.ValueRange{First: 303, Last: math.MaxUint64}),
		"first":  ids(moqt.ValueRange{}),
		"none":   ids(moqt.ValueRange{First: 2, Last: 4}),
		"marked": {{Type: moqt.ParameterObjectPropertyFilter, Property: 0x40, Ranges: only70}},
		"marked, or the end": {
			{Type: moqt.ParameterObjectPropertyFilter, Property: 0x40, Ranges: only70},
			{Type: moqt.ParameterObjectIDFilter, Set: 1, Ranges: []moqt.ValueRange{{First: 303, Last: 303}}},
		},
		"all": nil,
	} {
		for _, form := range []Form{{filters, moqt.DataLayout1}, {filters, moqt.DataLayout2}} {
			if form.isPlain() {
				continue
			}
			for cut := 1; cut < len(b); cut++ {
				k := newSink(CacheConfig{})
				s := k.source(header)
				require.NoError(t, feed(s, b[:cut]))
				if len(k.segments) == 0 {
					continue
				}
				from := k.segments[0]
				seg, _, release := from.Derive(form)
				require.NotSame(t, from, seg)
				again, copied, releaseAgain := from.Derive(Form{slices.Clone(filters), form.Layout})
				require.Same(t, seg, again, "it is shared")
				require.Zero(t, copied)
				require.NoError(t, feed(s, b[cut:]))
				require.NoError(t, fin(s))
				require.Equal(t, passing(from, filters, all), content(t, seg), "%s, cut at %d", name, cut)
				state, _ := seg.Log.State()
				require.Equal(t, Finished, state)
				require.Nil(t, seg.Log.First.Owner)
				require.True(t, seg.IsIn(form))
				require.False(t, from.IsIn(form))
				release()
				releaseAgain()
				late, copied, releaseLate := from.Derive(upToID(5))
				require.Equal(t, int64(len(b)), copied)
				require.Equal(t, objects(0, 1, 5), content(t, late))
				releaseLate()
				k.track.Close()
				require.Zero(t, k.cache.Bytes(), "nothing is left")
			}
		}
	}
}

// TestDeriveWhatALayoutCannotExpress checks that objects with numbers that are too large for a layout are left out,
// with all that follow in their subgroup.
func TestDeriveWhatALayoutCannotExpress(t *testing.T) {
	const large = 1 << 62
	k := newSink(CacheConfig{})
	require.NoError(t, feed(k.source(plain), encode(plain, object(1), object(large+2), object(large+3))))
	seg, _, release := k.segments[0].Derive(Form{Layout: moqt.DataLayout2})
	require.Equal(t, objects(1), content(t, seg))
	state, _ := seg.Log.State()
	require.Equal(t, Reset, state)
	release()
	for h, fits := range map[moqt.SubgroupHeader]bool{
		{GroupID: large - 1}: true, {GroupID: large}: false,
		{SubgroupIDMode: moqt.SubgroupIDPresent, SubgroupID: large}: false,
	} {
		k := newSink(CacheConfig{})
		require.NoError(t, feed(k.source(h), encode(h, object(0))))
		seg, _, _ := k.segments[0].Derive(Form{Layout: moqt.DataLayout2})
		require.Equal(t, fits, seg != nil)
	}
}

// TestDeriveWholeSubgroups checks that a segment is not copied if all of its objects pass, or none.
func TestDeriveWholeSubgroups(t *testing.T) {
	k := newSink(CacheConfig{})
	header := moqt.SubgroupHeader{GroupID: 1, SubgroupIDMode: moqt.SubgroupIDPresent, SubgroupID: 2}
	require.NoError(t, feed(k.source(header), encode(header, objects(0, 1)...)))
	before := k.cache.Bytes()
	one := func(typ moqt.ParameterType, first uint64) moqt.RangeFilters {
		return moqt.RangeFilters{{Type: typ, Ranges: []moqt.ValueRange{{First: first, Last: first}}}}
	}
	for _, filters := range []moqt.RangeFilters{
		nil, one(moqt.ParameterSubgroupFilter, 2), one(moqt.ParameterPriorityFilter, 128),
	} {
		seg, _, release := k.segments[0].Derive(Form{Filters: filters})
		require.Same(t, k.segments[0], seg)
		require.True(t, seg.IsIn(Form{Filters: filters}))
		release()
	}
	for _, filters := range []moqt.RangeFilters{
		one(moqt.ParameterSubgroupFilter, 3), one(moqt.ParameterPriorityFilter, 127),
		one(moqt.ParameterObjectPropertyFilter, 0), // the subgroup has no properties
	} {
		seg, _, _ := k.segments[0].Derive(Form{Filters: filters})
		require.Nil(t, seg)
		require.False(t, k.segments[0].IsIn(Form{Filters: filters}))
	}
	require.Equal(t, before, k.cache.Bytes())
}

// TestDerivedEndsLikeItsSource checks that a reset is passed on, with the objects that came before.
func TestDerivedEndsLikeItsSource(t *testing.T) {
	k := newSink(CacheConfig{})
	s := k.source(plain)
	require.NoError(t, feed(s, encode(plain, objects(0, 1)...)[:20]))
	seg, _, release := k.segments[0].Derive(upToID(9))
	defer release()
	require.NoError(t, s.Close(77))
	state, code := seg.Log.State()
	require.Equal(t, Reset, state)
	require.Equal(t, uint64(77), code)
	require.Equal(t, []byte(encode(plain, objects(0, 1)...)[:20]), readAll(t, seg.Log, 0))
}

// TestDerivedIsKeptWhileItIsRead checks that segments that nobody reads are neither kept nor made any more, and that
// their number is limited.
func TestDerivedIsKeptWhileItIsRead(t *testing.T) {
	k := newSink(CacheConfig{})
	s := k.source(plain)
	require.NoError(t, feed(s, encode(plain, objects(0, 1, 2)...)))
	from, before := k.segments[0], k.cache.Bytes()
	_, _, release := from.Derive(upToID(9))
	require.Greater(t, k.cache.Bytes(), before)
	k.cache.Sweep()
	again, copied, releaseAgain := from.Derive(upToID(9))
	require.Zero(t, copied, "it was kept")
	release()
	releaseAgain()
	k.cache.Sweep()
	end := again.Log.End()
	require.NoError(t, feed(s, encode(plain, object(0)))) // as the object after 2
	require.Equal(t, end, again.Log.End(), "nothing is copied any more")
	require.NoError(t, fin(s))
	var releases []func()
	for i := range uint64(maxDerived) {
		seg, copied, release := from.Derive(upToID(i))
		require.NotNil(t, seg)
		require.NotZero(t, copied)
		releases = append(releases, release)
	}
	seg, _, _ := from.Derive(upToID(maxDerived))
	require.Nil(t, seg, "there is no room")
	require.Equal(t, int64(1), k.cache.Trims())
	seg, _, release = from.Derive(Form{Layout: moqt.DataLayout2})
	require.NotNil(t, seg, "filters leave room for the other layout")
	releases = append(releases, release)
	releases[0]()
	seg, _, release = from.Derive(upToID(maxDerived))
	require.NotNil(t, seg, "one that nobody reads made room")
	release()
	for _, release := range releases[1:] {
		release()
	}
	k.cache.Sweep()
	seg, copied, release = from.Derive(upToID(0))
	require.NotZero(t, copied)
	require.Equal(t, objects(0), content(t, seg))
	release()
	k.cache.Sweep()
	require.Empty(t, k.segments[0].derived)
	k.track.Close()
	require.Zero(t, k.cache.Bytes())
}

// TestDerivedYieldsMemory checks that what readers do not need of derived segments goes with the rest of their group.
func TestDerivedYieldsMemory(t *testing.T) {
	k := newSink(CacheConfig{Size: 1 << 20})
	s := k.source(plain)
	large := testObject{id: 0, payload: string(make([]byte, 200_000))}
	require.NoError(t, feed(s, encode(plain, large)))
	seg, _, release := k.segments[0].Derive(upToID(9))
	last, ok := seg.Log.Last()
	require.True(t, ok)
	r, err := seg.Log.NewReader(last.End, nil) // as a stream that has been sent so far
	require.NoError(t, err)
	release()
	for range 20 {
		require.NoError(t, feed(s, encode(plain, large)))
		r.Release(seg.Log.End())
	}
	require.Less(t, k.cache.Bytes(), int64(1<<20))
	r.Close()
	require.NoError(t, fin(s))
	k.track.Close()
	require.Zero(t, k.cache.Bytes())
}

// TestDerivedWithoutCache checks that subscribers get filtered objects when nothing is kept.
func TestDerivedWithoutCache(t *testing.T) {
	k := newSink(CacheConfig{Duration: -1})
	var seg *Segment
	var r *Reader
	k.track.opened = func(from *Segment) {
		var release func()
		seg, _, release = from.Derive(upToID(1))
		r, _ = seg.Log.NewReader(0, nil)
		release()
	}
	s := k.source(plain)
	require.NoError(t, feed(s, encode(plain, objects(0, 1, 2)...)))
	require.NoError(t, fin(s))
	require.Equal(t, objects(0, 1), content(t, seg))
	r.Close()
	k.track.Close()
	require.Zero(t, k.cache.Bytes())
}

// TestDerivedRaces lets subscribers with filters come and go while streams arrive, and the cache is swept.
func TestDerivedRaces(t *testing.T) {
	const perGroup, groups = 60, 20
	var subscribers sync.WaitGroup
	c := NewCache(CacheConfig{})
	read := func(from *Segment, n uint64, rnd *rand.Rand) {
		filters := ids(moqt.ValueRange{First: n, Last: 2*n + 1})
		seg, _, release := from.Derive(Form{Filters: filters})
		grown := make(wakeChan, 1)
		r, err := seg.Log.NewReader(0, grown)
		require.NoError(t, err)
		defer r.Close()
		release()
		leaves := rnd.IntN(3) == 0
		if leaves {
			return
		}
		for state, _ := seg.Log.State(); state == Open; state, _ = seg.Log.State() {
			<-grown
		}
		var want []testObject
		for id := n; id <= min(2*n+1, perGroup-1); id++ {
			want = append(want, object(id))
		}
		require.Equal(t, want, content(t, seg), fmt.Sprint(filters))
	}
	tr := c.NewTrack(func(from *Segment) {
		for n := range uint64(8) {
			seg, _, keep := from.Derive(Form{Filters: ids(moqt.ValueRange{First: n, Last: 2*n + 1})})
			require.NotNil(t, seg)
			for i := range uint64(2) {
				subscribers.Go(func() { read(from, n, rand.New(rand.NewPCG(from.Group, 2*n+i))) })
			}
			subscribers.Go(keep)
		}
	})
	stop := make(chan struct{})
	var sweeper sync.WaitGroup
	sweeper.Go(func() {
		for tick := time.Tick(time.Millisecond); ; c.Sweep() {
			select {
			case <-stop:
				return
			case <-tick:
			}
		}
	})
	var publishers sync.WaitGroup
	for g := range uint64(groups) {
		publishers.Go(func() {
			header := moqt.SubgroupHeader{GroupID: g, FirstObject: true}
			s := tr.NewSource(SourceConfig{Header: header, Start: 5, Cancel: func() {}})
			var all []testObject
			for id := range uint64(perGroup) {
				all = append(all, object(id))
			}
			b, rnd := encode(header, all...), rand.New(rand.NewPCG(g, 0))
			for len(b) > 0 {
				n := min(len(b), 1+rnd.IntN(200))
				require.NoError(t, feed(s, b[:n]))
				b = b[n:]
			}
			require.NoError(t, fin(s))
		})
	}
	publishers.Wait()
	subscribers.Wait()
	close(stop)
	sweeper.Wait()
	tr.Close()
	require.Zero(t, c.Bytes())
}
