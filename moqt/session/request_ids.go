package session

import (
	"slices"
	"sync"

	"sluice/moqt"
)

// maxIDGaps is the number of gaps in the Request IDs of a peer that requestIDs remembers. A request that was cancelled
// before it arrived leaves a gap that never closes. Beyond the limit, the oldest gap counts as used.
const maxIDGaps = 1024

// requestIDs are the Request IDs that the peer has used (draft §10.1). Each arrives on a stream of its own, so they
// arrive in any order.
type requestIDs struct {
	parity uint64 // of the peer's ids: 0 for a client, 1 for a server

	mu   sync.Mutex
	used []idRange // ascending, neither touching nor overlapping
}

// idRange is the ids first, first+2, …, last.
type idRange struct{ first, last uint64 }

// use records an id. It fails if the peer must not use the id, or has used it before.
func (r *requestIDs) use(id uint64) error {
	if id&1 != r.parity {
		return closes(moqt.SessionInvalidRequestID, "request id %d belongs to the other endpoint", id)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	i, found := slices.BinarySearchFunc(r.used, id, compareID)
	if found {
		return closes(moqt.SessionInvalidRequestID, "request id %d was used before", id)
	}
	r.insert(i, id)
	if len(r.used) > maxIDGaps {
		r.used[1].first = r.used[0].first
		r.used = r.used[1:]
	}
	return nil
}

func compareID(r idRange, id uint64) int {
	switch {
	case r.last < id:
		return -1
	case r.first > id:
		return 1
	default:
		return 0
	}
}

// insert adds an id before the i-th range, and joins it with its neighbours.
func (r *requestIDs) insert(i int, id uint64) {
	left := i > 0 && r.used[i-1].last+2 == id
	right := i < len(r.used) && id+2 == r.used[i].first
	switch {
	case left && right:
		r.used[i-1].last = r.used[i].last
		r.used = slices.Delete(r.used, i, i+1)
	case left:
		r.used[i-1].last = id
	case right:
		r.used[i].first = id
	default:
		r.used = slices.Insert(r.used, i, idRange{id, id})
	}
}

// isUsed reports whether the peer has used an id.
func (r *requestIDs) isUsed(id uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, found := slices.BinarySearchFunc(r.used, id, compareID)
	return found
}

// next returns the smallest id that is larger than all ids that the peer has used.
func (r *requestIDs) next() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.used) == 0 {
		return r.parity
	}
	return r.used[len(r.used)-1].last + 2
}
