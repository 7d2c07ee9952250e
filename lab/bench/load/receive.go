package load

import (
	"context"
	"errors"
	"sync"
	"time"

	"sluice/lab/bench/video"
	"sluice/moqt"
	"sluice/moqt/session"
)

// receiver takes, verifies and counts the objects of one subscription.
type receiver struct {
	source video.Mock
	record bool
	audio  *receiver // of the same session; nil: there is none
	settle func()    // takes packets that wait for missing ones; nil: none do

	mu      sync.Mutex // guards all below
	seen    map[moqt.Location]bool
	got     Received
	waiting uint64        // how many objects waitFor waits for; 0 if it does not wait
	enough  chan struct{} // closed when they are there
}

func newReceiver(source video.Mock, record bool) *receiver {
	return &receiver{source: source, record: record, seen: make(map[moqt.Location]bool)}
}

func (r *receiver) result() Received {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	if r.audio != nil {
		got.Audio = r.audio.result().Arrivals
	}
	return got
}

// waitFor waits until the number of objects has arrived, or the context is done. It can be called once.
func (r *receiver) waitFor(ctx context.Context, objects uint64) {
	r.mu.Lock()
	if r.got.Objects >= objects {
		r.mu.Unlock()
		return
	}
	r.waiting, r.enough = objects, make(chan struct{})
	r.mu.Unlock()
	select {
	case <-r.enough:
	case <-ctx.Done():
	}
}

// HandleDatagram implements [session.Receiver].
func (r *receiver) HandleDatagram(*moqt.ObjectDatagram) {}

// readBuffer is the memory of a stream while it is read.
const readBuffer = 32 << 10

var readBuffers = sync.Pool{New: func() any { return new([readBuffer]byte) }}

// HandleSubgroup implements [session.Receiver].
func (r *receiver) HandleSubgroup(g *session.Subgroup) { r.read(g, 0) }

// read takes the objects of a subgroup of a rendition.
func (r *receiver) read(g *session.Subgroup, rank int) {
	buf := readBuffers.Get().(*[readBuffer]byte)
	defer readBuffers.Put(buf)
	parser := moqt.NewSubgroupParser(g.Subscription.Session().Version().DataLayout(), g.Header, 0)
	s := subgroupReader{parser: parser, group: g.Header.GroupID, object: func(o object) {
		o.rank = rank
		r.take(o)
	}}
	for {
		n, err := g.Read(buf[:])
		if s.read(buf[:n]) != nil {
			g.CancelRead(uint64(moqt.ResetInternalError)) // the stream is malformed: its objects will be missing
			return
		}
		if err != nil {
			return
		}
	}
}

// take counts an object.
func (r *receiver) take(o object) {
	arrived := time.Now()
	published, err := r.source.Verify(o.Location, &o.digest)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		r.got.Corrupt++
		return
	case r.seen[o.Location]:
		r.got.Duplicates++
		return
	}
	r.seen[o.Location] = true
	r.got.Objects++
	if r.got.Objects == r.waiting {
		close(r.enough)
	}
	r.got.Bytes += uint64(o.digest.Size())
	a := video.Arrival{
		Group: o.Group, Object: o.Object, Published: published.UnixNano(), Arrived: arrived.UnixNano(),
		Bytes: o.digest.Size(), Rendition: o.rank,
	}
	if r.record {
		r.got.Arrivals = append(r.got.Arrivals, a)
	}
}

// object is an object that has begun to come.
type object struct {
	moqt.Location
	rank   int // of its rendition
	digest video.Digest
}

// reject counts an object that does not belong in its place.
func (r *receiver) reject() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got.Corrupt++
}

// countPacket counts an RTP packet, and whether packets that follow it have come before.
func (r *receiver) countPacket(disordered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got.Packets++
	if disordered {
		r.got.Disordered++
	}
}

// subgroupReader finds the objects of a subgroup and digests their payloads without a copy.
type subgroupReader struct {
	parser  *moqt.SubgroupParser
	group   uint64
	object  func(object)
	current object
	missing uint64 // bytes of the current object
	within  bool
}

// read takes the next bytes of the stream.
func (s *subgroupReader) read(b []byte) error {
	for len(b) > 0 {
		o, n, err := s.parser.Next(b)
		if err != nil && !errors.Is(err, moqt.ErrIncomplete) {
			return err
		}
		s.payload(b[:n])
		b = b[n:]
		if err == nil {
			s.current = object{Location: moqt.Location{Group: s.group, Object: o.ObjectID}}
			s.missing, s.within = o.PayloadLength, o.PayloadLength > 0
		}
	}
	return nil
}

// payload digests the bytes of the current object in b, which ends at the latest with the next header.
func (s *subgroupReader) payload(b []byte) {
	if !s.within {
		return
	}
	b = b[:min(uint64(len(b)), s.missing)]
	s.current.digest.Write(b)
	if s.missing -= uint64(len(b)); s.missing == 0 {
		s.within = false
		s.object(s.current)
	}
}

// errCannotChoose is why a relay has no numbers for a ladder.
var errCannotChoose = errors.New("this relay does not choose renditions")

// rung takes the objects of a rendition.
type rung struct {
	*receiver
	rank int
}

// HandleSubgroup implements [session.Receiver].
func (r rung) HandleSubgroup(g *session.Subgroup) { r.read(g, r.rank) }
