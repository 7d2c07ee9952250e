package lab

import (
	"cmp"
	"slices"

	"sluice/lab/bpf"
)

// Fate predicts, from the seed alone, how a link treats count packets that enter one after another: the decisions of
// bpf/link.bpf.c written once more, so that a test knows them exactly.
type Fate struct {
	Arrived []int // numbers of the packets, in order
	// how many at the end of Arrived wait to be overtaken when the last one has entered
	Waiting                     int
	Lost, Duplicated, Reordered uint64
}

// Predict returns the fate of the packets first to first+count-1 that enter a link, counted from the building of the
// lab.
func (k *Link) Predict(d Direction, first, count int) Fate {
	c := k.conditions[d]
	seed := laneSeed(k.lab.seed, k.lane(d))
	draw := func(n int, e bpf.LinkEvent) uint64 {
		return mix(seed+(uint64(n)*uint64(bpf.LinkEventEVENTS)+uint64(e)+1)*0x9e3779b97f4a7c15) >> 32
	}
	var f Fate
	type heldBack struct{ copies, behind int }
	held := make(map[int]heldBack)
	var order []int
	for n := first; n < first+count; n++ {
		if draw(n, bpf.LinkEventLOST) < c.Loss.scaled() {
			f.Lost++
			continue
		}
		copies := 1
		if draw(n, bpf.LinkEventDUPLICATED) < c.Duplicate.scaled() {
			copies++
			f.Duplicated++
		}
		if draw(n, bpf.LinkEventREORDERED) < c.Reorder.scaled() {
			f.Reordered++
			held[n] = heldBack{copies, cmp.Or(c.ReorderGap, defaultReorderGap)}
			order = append(order, n)
			continue
		}
		for range copies {
			f.Arrived = append(f.Arrived, n)
			order = slices.DeleteFunc(order, func(id int) bool {
				h := held[id]
				h.behind--
				held[id] = h
				if h.behind > 0 {
					return false
				}
				f.Arrived = append(f.Arrived, slices.Repeat([]int{id}, h.copies)...)
				return true
			})
		}
	}
	for _, id := range order { // no packet overtakes the last ones
		f.Arrived = append(f.Arrived, slices.Repeat([]int{id}, held[id].copies)...)
		f.Waiting += held[id].copies
	}
	return f
}
