package trial

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"sluice/moqt"
	"sluice/moqt/session"
)

// payload returns what an object has: its location, and bytes that follow from it.
func payload(at moqt.Location) []byte {
	b := make([]byte, 16+(at.Group*131+at.Object*977)%1500)
	binary.BigEndian.PutUint64(b, at.Group)
	binary.BigEndian.PutUint64(b[8:], at.Object)
	for i := range b[16:] {
		b[16+i] = byte(at.Group + at.Object*7 + uint64(i))
	}
	return b
}

// oracle judges what a viewer receives. It implements [session.Receiver].
type oracle struct {
	layout moqt.DataLayout

	mu     sync.Mutex
	got    map[moqt.Location]struct{}
	faults []string
	resets int
	open   map[uint64]int // streams that have not ended, by group
}

func newOracle(layout moqt.DataLayout) *oracle {
	return &oracle{layout: layout, got: make(map[moqt.Location]struct{}), open: make(map[uint64]int)}
}

// HandleSubgroup implements [session.Receiver].
func (o *oracle) HandleSubgroup(g *session.Subgroup) {
	o.countOpen(g.Header.GroupID, 1)
	defer o.countOpen(g.Header.GroupID, -1)
	p, next := moqt.NewSubgroupParser(o.layout, g.Header, 0), uint64(0)
	var stream []byte
	var pending []moqt.SubgroupObject // whose payload is not whole
	b := make([]byte, 4096)
	for {
		n, err := g.Read(b)
		stream = append(stream, b[:n]...)
		for rest := b[:n]; len(rest) > 0; {
			object, used, parseErr := p.Next(rest)
			if rest = rest[used:]; parseErr == nil {
				pending = append(pending, *object)
			} else if !errors.Is(parseErr, moqt.ErrIncomplete) {
				o.fault("group %d: %v", g.Header.GroupID, parseErr)
				return
			}
		}
		for len(pending) > 0 && int(pending[0].End) <= len(stream) {
			first, at := pending[0], moqt.Location{Group: g.Header.GroupID, Object: pending[0].ObjectID}
			if at.Object < next {
				o.fault("object %v came behind a later one of its stream", at)
			}
			o.take(at, stream[first.PayloadStart:first.End])
			pending, next = pending[1:], at.Object+1
		}
		if err != nil {
			o.endStream(err)
			return
		}
	}
}

// HandleDatagram implements [session.Receiver].
func (o *oracle) HandleDatagram(*moqt.ObjectDatagram) { o.fault("a datagram of a track that has none") }

// take judges a whole object.
func (o *oracle) take(at moqt.Location, object []byte) {
	if !bytes.Equal(object, payload(at)) {
		o.fault("object %v has other bytes than were published", at)
	}
	o.mu.Lock()
	_, twice := o.got[at]
	o.got[at] = struct{}{}
	o.mu.Unlock()
	if twice {
		o.fault("object %v came twice", at)
	}
}

// endStream counts how streams end. A stream may be reset if another one brings the rest.
func (o *oracle) endStream(err error) {
	if !errors.Is(err, io.EOF) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.resets++
	}
}

func (o *oracle) countOpen(group uint64, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open[group] += n; o.open[group] == 0 {
		delete(o.open, group)
	}
}

// unended returns the groups that have streams which have not ended, when the media is over.
func (o *oracle) unended() []uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(maps.Keys(o.open))
}

func (o *oracle) fault(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.faults = append(o.faults, fmt.Sprintf(format, args...))
}

// missing returns which of the published objects from a group on, and before another one, have not come.
func (o *oracle) missing(published map[uint64]uint64, first, end uint64) (lost []moqt.Location) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for group := first; group < end; group++ {
		for object := range published[group] {
			at := moqt.Location{Group: group, Object: object}
			if _, ok := o.got[at]; !ok {
				lost = append(lost, at)
			}
		}
	}
	return lost
}
