package fastpath

import (
	"slices"
	"sync"
)

// registry holds the connections and the tracks by index. Their elements in the kernel's maps have the same index.
// There are more indices when there is memory for more, see room.
type registry struct {
	mu         sync.Mutex // guards all below
	closed     bool
	conns      []*conn  // nil: free, or taken and not connected yet
	free       []uint32 // indices of connections that have no ledger
	ready      []uint32 // free indices that have one
	tracks     []*ForwardedTrack
	freeTracks []uint32 // indices
}

// freeConns returns how many indices of connections are free and have no ledger, and how many there are. ok is false
// once r is closed.
func (r *registry) freeConns() (free int, made uint32, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.free), uint32(len(r.conns)), !r.closed
}

// freeTrackIndices does the same for tracks.
func (r *registry) freeTrackIndices() (free int, made uint32, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.freeTracks), uint32(len(r.tracks)), !r.closed
}

// addConns adds the indices up to n.
func (r *registry) addConns(n uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := uint32(len(r.conns)); i < n; i++ {
		r.conns, r.free = append(r.conns, nil), append(r.free, i)
	}
}

// addTracks adds the indices up to n.
func (r *registry) addTracks(n uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := uint32(len(r.tracks)); i < n; i++ {
		r.tracks, r.freeTracks = append(r.tracks, nil), append(r.freeTracks, i)
	}
}

// take takes the last index of a list of r, unless r is closed.
func (r *registry) take(from *[]uint32) (index uint32, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.takeLocked(from)
}

func (r *registry) takeLocked(from *[]uint32) (index uint32, ok bool) {
	last := len(*from) - 1
	if last < 0 || r.closed {
		return 0, false
	}
	index, *from = (*from)[last], (*from)[:last]
	return index, true
}

// put adds indices to a list of r.
func (r *registry) put(to *[]uint32, indices ...uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*to = append(*to, indices...)
}

// scarce takes up to n free indices that should get ledgers, if fewer than n have one.
func (r *registry) scarce(n int) []uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n = min(max(n-len(r.ready), 0), len(r.free))
	indices := slices.Clone(r.free[len(r.free)-n:])
	r.free = r.free[:len(r.free)-n]
	return indices
}

// hasSurplus reports whether surplus has something to take.
func (r *registry) hasSurplus(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ready) > 2*n
}

// surplus takes up to n indices whose ledgers should be freed, if more than 2n have one: the indices that have been
// ready for longest.
func (r *registry) surplus(n int) []uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n = min(max(len(r.ready)-2*n, 0), n)
	indices := slices.Clone(r.ready[:n])
	r.ready = slices.Delete(r.ready, 0, n)
	return indices
}

// connect adds a connection.
func (r *registry) connect(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns[c.index] = c
}

// disconnect removes a connection.
func (r *registry) disconnect(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conns[c.index] == c {
		r.conns[c.index] = nil
	}
}

// conn returns the connection with an index, or nil if it has ended.
func (r *registry) conn(index uint32) *conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conns[index]
}

// all returns the connections that have not ended.
func (r *registry) all() []*conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.allLocked()
}

func (r *registry) allLocked() []*conn {
	return slices.DeleteFunc(slices.Clone(r.conns), func(c *conn) bool { return c == nil })
}

// newTrack adds a track, unless there are too many. enough reports whether there is room for others.
func (r *registry) newTrack(t *ForwardedTrack) (enough, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.index, ok = r.takeLocked(&r.freeTracks); ok {
		r.tracks[t.index] = t
	}
	return len(r.freeTracks) >= spareTracks, ok
}

// allTracks returns the tracks that are not closed.
func (r *registry) allTracks() []*ForwardedTrack {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.tracks), func(t *ForwardedTrack) bool { return t == nil })
}

// removeTrack removes a track. Its index is free when the reclaimer says so.
func (r *registry) removeTrack(t *ForwardedTrack) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tracks[t.index] = nil
}

// track returns the track with an index, or nil if it is closed.
func (r *registry) track(index uint32) *ForwardedTrack {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tracks[index]
}

// close refuses new connections and tracks, and returns the connections for the caller to close.
func (r *registry) close() []*conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	conns := r.allLocked()
	clear(r.conns)
	return conns
}
