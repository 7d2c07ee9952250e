package media

import "sluice/claim"

// adoption keeps what happens to the streams that the forwarder opens, until the media sender adopts them: the
// forwarder sees a stream's first packet before user space does, and the peer may answer before that too. It is
// guarded by the sender's lock.
type adoption struct {
	state     *claim.ConnState // nil: there is no forwarder
	known     spans            // numbers of streams that the media sender or quic-go has opened, or that were adopted
	streams   map[uint32]*unadopted
	forgotten uint32 // streams with lower numbers may have been more than could be kept
}

// unadopted is what has happened to one of these streams.
type unadopted struct {
	delivery
	limit   int64 // of MAX_STREAM_DATA
	stopped bool
	code    uint64 // of STOP_SENDING
}

// maxUnadopted is how many streams can be opened while user space reads the first packet of each.
const maxUnadopted = 4096

// know notes the number of a stream that is not to be adopted, or no longer.
func (a *adoption) know(number int64) {
	if a.state != nil {
		a.known.add(number, number+1)
	}
}

// isOurs reports whether an id is that of a unidirectional stream of this end, as are all that the forwarder opens (RFC
// 9000 §2.1).
func (a *adoption) isOurs(id int64) bool {
	return a.state != nil && (uint64(id)^a.state.NextUni.Load())&3 == 0
}

// find returns the record of a stream, and begins to keep it. It returns nil if the forwarder has not opened it, or
// if no more can be kept.
func (a *adoption) find(number uint32) *unadopted {
	n := int64(number)
	if a.state == nil || uint64(n) >= a.state.NextUni.Load()/4 || a.known.contains(n, n+1) {
		return nil
	}
	u := a.streams[number]
	switch {
	case u != nil:
	case len(a.streams) == maxUnadopted:
		a.forgotten = max(a.forgotten, number+1)
	default:
		if a.streams == nil {
			a.streams = make(map[uint32]*unadopted)
		}
		u = new(unadopted)
		a.streams[number] = u
	}
	return u
}

// take removes and returns the record of a stream that is adopted. unknown reports that more may have happened to
// it.
func (a *adoption) take(number uint32) (u *unadopted, unknown bool) {
	u = a.streams[number]
	delete(a.streams, number)
	return u, u == nil && number < a.forgotten
}
