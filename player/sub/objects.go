package sub

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/player/cmaf"
)

// maxObject is the size of the largest object that is accepted: a chunk at the limits of package cmaf.
const maxObject = cmaf.MaxHeaderSize + cmaf.MaxMediaSize

// firstPart is how many bytes of an object there is memory for before any has come: anybody can claim a length.
const firstPart = 16 << 10

var errObjectTooLarge = fmt.Errorf("object of more than %d bytes", maxObject)

// assembler collects the payloads of objects whose headers a parser finds in a stream.
type assembler struct {
	memory  Memory
	taken   int // of memory
	payload []byte
	missing uint64 // bytes of the payload that are still to come
	emit    func(payload []byte)
}

// begin starts an object after its header.
func (a *assembler) begin(length uint64, emit func([]byte)) error {
	if length > maxObject {
		return errObjectTooLarge
	}
	a.payload, a.missing, a.emit = nil, length, emit
	a.flush()
	return nil
}

// take appends the bytes of b that belong to the payload.
func (a *assembler) take(b []byte) error {
	if a.emit == nil {
		return nil
	}
	n := min(a.missing, uint64(len(b)))
	if room := len(a.payload) + int(n); room > cap(a.payload) {
		// Twice as much as before, but not more than there will be.
		more := max(room, min(max(2*cap(a.payload), firstPart), len(a.payload)+int(a.missing))) - len(a.payload)
		if !a.memory.Take(more) {
			return errMemory
		}
		a.taken += more
		a.payload = slices.Grow(a.payload, more)
	}
	a.payload = append(a.payload, b[:n]...)
	a.missing -= n
	a.flush()
	return nil
}

func (a *assembler) flush() {
	if a.missing == 0 {
		emit, payload := a.emit, a.payload
		a.emit, a.payload = nil, nil
		a.release() // who gets the object counts it
		emit(payload)
	}
}

func (a *assembler) release() {
	a.memory.Give(a.taken)
	a.taken = 0
}

// readStream feeds a stream to next, which consumes bytes up to the header of an object and calls begin for it.
func readStream(
	r io.Reader, a *assembler, next func([]byte) (n int, begin func() error, err error), finish func() error,
) error {
	if !a.memory.Take(streamOverhead) {
		return errMemory
	}
	defer func() { a.release(); a.memory.Give(streamOverhead) }()
	buf := make([]byte, 16<<10)
	for {
		n, err := r.Read(buf)
		for b := buf[:n]; len(b) > 0; {
			used, begin, err := next(b)
			if err != nil && !errors.Is(err, moqt.ErrIncomplete) {
				return err
			}
			if err := a.take(b[:used]); err != nil {
				return err
			}
			b = b[used:]
			if err == nil {
				if err := begin(); err != nil {
					return err
				}
			}
		}
		if err == io.EOF {
			return finish()
		}
		if err != nil {
			return err
		}
	}
}

// readSubgroup passes on the objects of a subgroup stream. Status objects have no payload. It returns nil at FIN.
func readSubgroup(g *session.Subgroup, m Memory, object func(moqt.ObjectHeader, item)) error {
	a := &assembler{memory: m}
	p := moqt.NewSubgroupParser(g.Subscription.Session().Version().DataLayout(), g.Header, 0)
	subgroup, known := g.Header.SubgroupID, g.Header.SubgroupIDMode != moqt.SubgroupIDFirstObject
	priority := g.Header.Priority
	if g.Header.DefaultPriority {
		priority = g.Subscription.Properties().DefaultPublisherPriority()
	}
	return readStream(g, a, func(b []byte) (int, func() error, error) {
		o, n, err := p.Next(b)
		if err != nil {
			return n, nil, err
		}
		if !known {
			subgroup, known = o.ObjectID, true
		}
		h := o.ObjectHeader
		i := item{
			location: moqt.Location{Group: g.Header.GroupID, Object: h.ObjectID}, subgroup: subgroup,
			priority: priority, properties: slices.Clone(h.Properties), // they share memory with b
		}
		h.Properties = nil
		return n, func() error {
			return a.begin(h.PayloadLength, func(payload []byte) {
				i.payload, i.arrived = payload, time.Now()
				object(h, i)
			})
		}, nil
	}, p.Finish)
}

// readFetch passes on the objects of the response to a FETCH in ascending order, and returns nil at FIN.
func readFetch(v moqt.Version, r io.Reader, m Memory, object func(item)) error {
	a := &assembler{memory: m}
	p := moqt.NewFetchParser(v, moqt.Ascending, 0)
	return readStream(r, a, func(b []byte) (int, func() error, error) {
		o, n, err := p.Next(b)
		if err != nil {
			return n, nil, err
		}
		if o.Kind != moqt.FetchKindObject {
			return n, func() error { return nil }, nil
		}
		i := item{
			location: o.Location, subgroup: o.SubgroupID, priority: o.Priority,
			properties: slices.Clone(o.Properties),
		}
		return n, func() error {
			return a.begin(o.PayloadLength, func(payload []byte) {
				i.payload, i.arrived = payload, time.Now()
				object(i)
			})
		}, nil
	}, p.Finish)
}
