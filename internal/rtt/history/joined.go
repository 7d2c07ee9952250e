package history

import (
	"cmp"
	"slices"
	"time"
	"unsafe"

	"sluice/internal/rtt/report"
)

// key is what rows have in common that are joined: what tells aggregates apart, and the width of bins.
type key struct {
	prefix, peer, device, protocol string
	vlan, inner                    uint16
	width                          int64
}

func keyOf(r *Row) key {
	return key{r.Prefix, r.Peer, r.Interface, r.Protocol, r.VLAN, r.InnerVLAN, r.Width}
}

func (k key) compare(o key) int {
	return cmp.Or(cmp.Compare(k.prefix, o.prefix), cmp.Compare(k.peer, o.peer), cmp.Compare(k.device, o.device),
		cmp.Compare(k.protocol, o.protocol), cmp.Compare(k.vlan, o.vlan), cmp.Compare(k.inner, o.inner),
		cmp.Compare(k.width, o.width))
}

// joined is the sum of rows of an aggregate.
type joined struct {
	row   Row // without RTTs and parts
	rtts  rtts
	parts []namedRTTs // few, in the order in which they came
}

// namedRTTs is a part of joined rows.
type namedRTTs struct {
	name string
	rtts
}

// join starts a sum with a row.
func join(r *Row) *joined {
	j := &joined{row: *r}
	j.row.Counts, j.row.Parts = nil, nil
	j.addRTTs(r)
	return j
}

// add adds a row.
func (j *joined) add(r *Row) {
	j.row.addCounters(r)
	if r.Start.Before(j.row.Start) {
		j.row.Start = r.Start
	}
	if r.End.After(j.row.End) {
		j.row.End = r.End
	}
	j.addRTTs(r)
}

func (j *joined) addRTTs(r *Row) {
	width := time.Duration(r.Width)
	j.rtts.add(rtts{r.RTTs, r.Min, r.Max, r.Sum, r.First, r.Counts}, width)
	for i := range r.Parts {
		p := &r.Parts[i]
		j.part(p.Name).add(rtts{p.RTTs, p.Min, p.Max, p.Sum, p.First, p.Counts}, width)
	}
}

func (j *joined) part(name string) *rtts {
	i := slices.IndexFunc(j.parts, func(p namedRTTs) bool { return p.name == name })
	if i < 0 {
		i = len(j.parts)
		j.parts = append(j.parts, namedRTTs{name: name})
	}
	return &j.parts[i].rtts
}

// size returns about how many bytes the sum takes in memory.
func (j *joined) size() int {
	size := int(unsafe.Sizeof(*j)) + 8*cap(j.rtts.counts)
	for i := range j.parts {
		size += int(unsafe.Sizeof(j.parts[i])) + 8*cap(j.parts[i].counts)
	}
	return size
}

// result returns the sum as a row.
func (j *joined) result() Row {
	r, width := j.row, time.Duration(j.row.Width)
	all := j.rtts.histogram(width)
	r.setRTTs(&all)
	for i := range j.parts {
		if h := j.parts[i].histogram(width); h.Count > 0 {
			r.Parts = append(r.Parts, newPart(j.parts[i].name, &h))
		}
	}
	return r
}

// rtts are RTTs as rows and parts have them: without empty bins at both ends, which a report.Histogram has.
type rtts struct {
	count         uint64
	min, max, sum int64
	first         int32
	counts        []uint64
}

// add adds other RTTs, unless they have bins that there are not.
func (t *rtts) add(o rtts, width time.Duration) {
	if o.count == 0 || !haveBins(o.first, o.counts, width) {
		return
	}
	if t.count == 0 || o.min < t.min {
		t.min = o.min
	}
	t.max = max(t.max, o.max)
	t.count += o.count
	t.sum += o.sum
	t.addCounts(o.first, o.counts)
}

func (t *rtts) addCounts(first int32, counts []uint64) {
	if len(t.counts) == 0 {
		t.first, t.counts = first, slices.Clone(counts)
		return
	}
	if before := int(t.first - first); before > 0 {
		t.first, t.counts = first, append(make([]uint64, before, before+len(t.counts)), t.counts...)
	}
	offset := int(first - t.first)
	if behind := offset + len(counts) - len(t.counts); behind > 0 {
		t.counts = append(t.counts, make([]uint64, behind)...)
	}
	for i, n := range counts {
		t.counts[offset+i] += n
	}
}

func (t *rtts) histogram(width time.Duration) report.Histogram {
	return withBins(report.Histogram{
		Count: t.count, Min: time.Duration(t.min), Max: time.Duration(t.max), Sum: time.Duration(t.sum), Width: width,
	}, t.first, t.counts)
}
