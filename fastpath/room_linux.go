package fastpath

import "sync"

const (
	// spareConns and spareTracks are how many are free before memory for more is made, so that nobody waits for it.
	spareConns  = 64
	spareTracks = 64
	// firstStreams is how many streams there is memory for before there are connections: a crowd may come at once.
	firstStreams = 512
)

// room makes memory for more connections, tracks and streams, as they are needed. What there is no memory for is left
// to the media sender.
type room struct {
	fast *FastPath
	mu   sync.Mutex // held while memory is made
}

// conns makes room for connections if fewer than n are free, and reports whether there is any.
func (r *room) conns(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, registry := r.fast.kernel, r.fast.registry
	free, made, open := registry.freeConns()
	if to := min(2*made, k.maxConns); open && free < n && made < to {
		if err := growAll(k.byConn, to); err != nil {
			r.fast.report("provide memory for connections", err)
		} else {
			registry.addConns(to)
			free += int(to - made)
		}
	}
	return open && free > 0
}

// tracks does the same for tracks.
func (r *room) tracks(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, registry := r.fast.kernel, r.fast.registry
	free, made, open := registry.freeTrackIndices()
	if to := min(2*made, k.maxTracks); open && free < n && made < to {
		if err := growAll(k.byTrack, to); err != nil {
			r.fast.report("provide memory for tracks", err)
		} else {
			registry.addTracks(to)
			free += int(to - made)
		}
	}
	return open && free > 0
}

// streams makes room for as many more streams as there are: the next group of a track may begin on all connections at
// once, while they still have the streams of the group before.
func (r *room) streams() {
	var used uint32
	for _, c := range r.fast.registry.all() {
		used += r.fast.states[c.index].Slots.Load()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fast.report("provide memory for streams", r.fast.kernel.growStreams(2*used+1))
}
