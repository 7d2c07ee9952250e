package history

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"sluice/rtt/report"
)

// overview has the facts that a summary of a history needs first.
type overview struct {
	from, to time.Time
	width    int64
	rtts     map[string]uint64            // how many, by prefix
	parts    map[string]map[string]uint64 // how many of each part, by prefix
}

// look makes the overview of a query.
func look(dir string, q Query) (*overview, error) {
	o := &overview{rtts: make(map[string]uint64), parts: make(map[string]map[string]uint64)}
	if err := q.read(dir, o.add); err != nil {
		return nil, err
	}
	switch {
	case !o.isEmpty():
		return o, nil
	case q.Prefix != "":
		return nil, ErrNoPrefix
	}
	return nil, ErrEmpty
}

func (o *overview) isEmpty() bool { return len(o.rtts) == 0 && len(o.parts) == 0 }

// histogram returns the histogram of a row, if its bins have the width of the first ones. Otherwise it returns none,
// and removes the parts of the row, too.
func (o *overview) histogram(r *Row) (h report.Histogram) {
	if r.Width != o.width && (r.RTTs > 0 || len(r.Parts) > 0) {
		r.Parts = nil
		return h
	}
	return r.Histogram()
}

func (o *overview) add(r *Row) error {
	if r.RTTs == 0 && len(r.Parts) == 0 {
		return nil
	}
	if o.isEmpty() {
		o.from, o.width = r.Start, r.Width
	}
	if r.Start.Before(o.from) {
		o.from = r.Start
	}
	if r.End.After(o.to) {
		o.to = r.End
	}
	prefix := r.Label()
	if r.RTTs > 0 {
		o.rtts[prefix] += r.RTTs
	}
	for i := range r.Parts {
		p := &r.Parts[i]
		if o.parts[p.Name] == nil {
			o.parts[p.Name] = make(map[string]uint64)
		}
		o.parts[p.Name][prefix] += p.RTTs
	}
	return nil
}

// alone returns the parts that some prefixes have without RTTs.
func (o *overview) alone() (names []string) {
	for part, counts := range o.parts {
		for prefix := range counts {
			if o.rtts[prefix] == 0 {
				names = append(names, part)
				break
			}
		}
	}
	slices.Sort(names)
	return names
}

// prefixes returns the prefixes with the most RTTs, and those with the most RTTs of a part that prefixes have without.
func (o *overview) prefixes() map[string]bool {
	all := make(map[string]bool)
	add := func(counts map[string]uint64) {
		for _, prefix := range busiest(counts) {
			all[prefix] = true
		}
	}
	add(o.rtts)
	for _, part := range o.alone() {
		add(o.parts[part])
	}
	return all
}

// busiest returns the prefixes with the most RTTs.
func busiest(counts map[string]uint64) []string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	few := slices.IndexFunc(names, func(name string) bool { return counts[name] < minRTTs })
	if few < 0 {
		few = len(names)
	}
	return names[:min(few, candidates)]
}
