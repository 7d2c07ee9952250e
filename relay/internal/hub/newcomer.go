package hub

import (
	"bufio"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"sluice/moqt"
)

// newcomer decides whether a publisher was restarted that did not say how far its track is, although objects had come
// before. Such a publisher has lost its state. It may begin again, and publish other objects under the same ids, or go
// on with larger ids (draft §2.4.3): its first object shows which. It also shows which objects were missed, if a
// neighbour has such a publisher.
type newcomer struct {
	upstream *upstream

	mu      sync.Mutex
	known   *moqt.Location             // the Largest Object when the publisher was accepted, or 0; nil: it is decided
	decided chan struct{}              // closed when it is decided; nil before the first object
	looks   map[chan struct{}]struct{} // of streams of known.Group; closed when the first object has come
}

// begin reports whether it needs the id of a first object of a group to decide, and returns what to call when that has
// come, or will not.
func (n *newcomer) begin(group uint64) (end func(), needs bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil || n.known.Group != group {
		return nil, false
	}
	if n.looks == nil {
		n.looks = make(map[chan struct{}]struct{})
	}
	c := make(chan struct{})
	n.looks[c] = struct{}{}
	return func() {
		close(c)
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.looks, c)
	}, true
}

// await waits for the first objects of streams of known.Group that have come before a later group: their packets may
// have been lost. It does not wait for long, as nothing says that there are any.
func (n *newcomer) await(group uint64) {
	n.mu.Lock()
	looks, later := slices.Collect(maps.Keys(n.looks)), n.known != nil && group > n.known.Group
	n.mu.Unlock()
	if !later || len(looks) == 0 {
		return
	}
	limit := time.After(probeTimeout)
	for _, c := range looks {
		select {
		case <-c:
		case <-limit:
			return
		}
	}
}

// look decides, if need be, by the first object of a stream. It returns what to read the stream from.
func (n *newcomer) look(group uint64, stream io.Reader) io.Reader {
	first := moqt.Location{Group: group}
	if end, needs := n.begin(group); needs {
		defer end()
		buffered := bufio.NewReaderSize(stream, 16)
		id, err := firstObject(buffered)
		if err != nil {
			return buffered
		}
		first.Object, stream = id, buffered
	}
	n.decide(first)
	return stream
}

// firstObject returns the id of the first object of a stream, and leaves it there.
func firstObject(stream *bufio.Reader) (id uint64, err error) {
	for n := 1; ; n++ {
		head, err := stream.Peek(n)
		if id, _, incomplete := moqt.ParseVarint(head); incomplete == nil {
			return id, nil // the next Read returns err again
		}
		if err != nil {
			return 0, err
		}
	}
}

// decide decides by the first object. Until it has, the publisher's other objects wait here.
func (n *newcomer) decide(first moqt.Location) {
	n.await(first.Group)
	n.mu.Lock()
	known, decided := n.known, n.decided
	if known != nil {
		n.known, n.decided = nil, make(chan struct{})
	}
	n.mu.Unlock()
	switch {
	case known != nil:
		defer close(n.decided)
		n.compare(first, *known)
	case decided != nil:
		<-decided
	}
}

// compare compares the first object with what had come, and replaces earlier publishers if this one was restarted. A
// neighbour may repeat an object that has come another way.
func (n *newcomer) compare(first, known moqt.Location) {
	u := n.upstream
	h := u.hub
	h.mu.Lock()
	var earlier []*upstream
	repeated := u.peer.From == Here && first == known
	switch {
	case u.over:
	case repeated || h.publishers.isRestart(u, first, known):
		earlier = h.publishers.startOver(u)
	case u.peer.isSluice(): // one of another make that tells no Largest Object may not know FETCH
		u.largest = &first
		u.startRefill(h.publishers.missed(u, &first))
	}
	h.mu.Unlock()
	u.replace(earlier)
}
