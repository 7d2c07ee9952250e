package fastpath

import (
	"slices"
	"sync"
)

// spare is how many indices of connections, or tracks, are free before memory for more is made, so that nobody waits
// for it.
const spare = 64

// pool has the connections or the tracks by index. Their elements in the kernel's maps have the same index. It makes
// memory for more as they are needed. What there is no memory for is left to the media sender.
type pool[T any] struct {
	of     string     // its content
	arrays []*growing // the elements
	most   uint32
	report func(operation string, err error)
	room   sync.Mutex // held while memory is made

	mu     sync.Mutex // guards all below
	closed bool
	all    []*T     // nil: free, or taken and not there yet
	free   []uint32 // indices; of connections those without a ledger
}

// add adds the indices that there is memory for.
func (p *pool[T]) add() {
	n := min(madeOfAll(p.arrays), p.most)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := uint32(len(p.all)); i < n; i++ {
		p.all, p.free = append(p.all, nil), append(p.free, i)
	}
}

// provide makes room if fewer than n indices are free, and reports whether any is.
func (p *pool[T]) provide(n int) bool {
	p.room.Lock()
	defer p.room.Unlock()
	free, made, open := p.count()
	if open && free < n && made < p.most {
		p.report("provide memory for "+p.of, growAll(p.arrays, min(2*made, p.most)))
		p.add()
		free, _, open = p.count()
	}
	return open && free > 0
}

// count returns how many indices are free, and how many there are. open is false once p is closed.
func (p *pool[T]) count() (free int, made uint32, open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.free), uint32(len(p.all)), !p.closed
}

// take takes the last index of a list of p, unless p is closed.
func (p *pool[T]) take(from *[]uint32) (index uint32, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(*from) == 0 || p.closed {
		return 0, false
	}
	return pop(from), true
}

// put adds indices to a list of p.
func (p *pool[T]) put(to *[]uint32, indices ...uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*to = append(*to, indices...)
}

// set sets what an index is of; nil: it has ended.
func (p *pool[T]) set(index uint32, one *T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[index] = one
}

// get returns what an index is of, or nil if it has ended.
func (p *pool[T]) get(index uint32) *T {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[index]
}

// list returns all that have not ended.
func (p *pool[T]) list() []*T {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.all), func(one *T) bool { return one == nil })
}

// close refuses new ones.
func (p *pool[T]) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

// connections is the pool of connections.
type connections struct {
	pool[conn]
	ready []uint32 // free indices that have a ledger
}

// scarce takes up to n free indices that should get ledgers, if fewer than n have one.
func (c *connections) scarce(n int) []uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = min(max(n-len(c.ready), 0), len(c.free))
	indices := slices.Clone(c.free[len(c.free)-n:])
	c.free = c.free[:len(c.free)-n]
	return indices
}

// surplus takes up to n indices whose ledgers should be freed, if more than 2n have one: the indices that have been
// ready for longest. left says that there are more such indices.
func (c *connections) surplus(n int) (indices []uint32, left bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := 2 * n
	n = min(max(len(c.ready)-most, 0), n)
	indices = slices.Clone(c.ready[:n])
	c.ready = slices.Delete(c.ready, 0, n)
	return indices, len(c.ready) > most
}
