package history

import (
	"time"
)

// Totals are the sums of some time.
type Totals struct {
	From, To time.Time
	Prefixes []Series // in no order
}

// Total sums the rows of a query, of the 1,000 prefixes with the most RTTs. If some have no RTTs, but another part such
// as queries, it also sums the rows of the 1,000 with most of that part.
func Total(dir string, q Query) (*Totals, error) {
	o, err := look(dir, q)
	if err != nil {
		return nil, err
	}
	each := make(map[string]*Series)
	for prefix := range o.prefixes() {
		s := newTotal(prefix)
		each[prefix] = &s
	}
	err = q.read(dir, func(r *Row) error {
		if s := each[r.Label()]; s != nil {
			h := o.histogram(r)
			s.add(r, &h)
		}
		return nil
	})
	t := &Totals{From: o.from, To: o.to}
	for _, s := range each {
		t.Prefixes = append(t.Prefixes, *s)
	}
	return t, err
}
