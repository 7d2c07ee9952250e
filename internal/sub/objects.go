package sub

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"sluice/internal/cmaf"
	"sluice/moqt"
	"sluice/moqt/session"
)

// maxObject is the size of the largest object that is accepted: a chunk at the limits of package cmaf.
const maxObject = cmaf.MaxHeaderSize + cmaf.MaxMediaSize

var errObjectTooLarge = fmt.Errorf("object of more than %d bytes", maxObject)

// assembler collects the payloads of objects whose headers a parser finds in a stream.
type assembler struct {
	payload []byte
	missing uint64 // bytes of the payload that are still to come
	began   time.Time
	emit    func(payload []byte)
}

// begin starts an object after its header.
func (a *assembler) begin(length uint64, emit func([]byte)) error {
	if length > maxObject {
		return errObjectTooLarge
	}
	a.payload, a.missing, a.emit, a.began = make([]byte, 0, min(length, 1<<20)), length, emit, time.Now()
	a.flush()
	return nil
}

// take appends the bytes of b that belong to the payload.
func (a *assembler) take(b []byte) {
	if a.emit == nil {
		return
	}
	n := min(a.missing, uint64(len(b)))
	a.payload = append(a.payload, b[:n]...)
	a.missing -= n
	a.flush()
}

func (a *assembler) flush() {
	if a.missing == 0 {
		emit := a.emit
		a.emit = nil
		emit(a.payload)
	}
}

// readStream feeds a stream to next, which consumes bytes up to the header of an object and calls begin for it.
func readStream(
	r io.Reader, a *assembler, next func([]byte) (n int, begin func() error, err error), finish func() error,
) error {
	buf := make([]byte, 16<<10)
	for {
		n, err := r.Read(buf)
		for b := buf[:n]; len(b) > 0; {
			used, begin, err := next(b)
			if err != nil && !errors.Is(err, moqt.ErrIncomplete) {
				return err
			}
			a.take(b[:used])
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
func readSubgroup(g *session.Subgroup, object func(moqt.ObjectHeader, item)) error {
	a := &assembler{}
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
				i.payload, i.arrived, i.began = payload, time.Now(), a.began
				object(h, i)
			})
		}, nil
	}, p.Finish)
}

// readFetch passes on the objects of the response to a FETCH in ascending order, and returns nil at FIN.
func readFetch(v moqt.Version, r io.Reader, object func(item)) error {
	a := &assembler{}
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
