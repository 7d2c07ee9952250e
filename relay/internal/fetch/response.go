package fetch

import (
	"context"
	"time"

	"sluice/moqt"
	"sluice/relay/internal/charge"
	"sluice/track"
	"sluice/transport"
)

// response writes the objects of a FETCH to its stream (draft §11.4.4).
type response struct {
	req      Request
	payers   charge.Payers
	turns    *Turns // of the peer
	priority uint8  // Subscriber Priority; guarded by turns.mu
	stall    time.Duration
	stream   transport.SendStream // nil before it is open; guarded by Fetch.mu
	order    moqt.GroupOrder
	encoder  moqt.FetchEncoder
	buf      []byte
	gap      gap
	late     func() bool // the time of FILL_TIMEOUT is used up (draft §10.2.5)
	filters  moqt.RangeFilters
	skips    bool // the payload of an object that does not pass the filters follows
}

// gap is a run of locations without objects, after the last object or marker that was sent.
type gap struct {
	existence track.Existence // Present: there is none
	end       moqt.Location
}

func newResponse(by Client, req Request, params *moqt.Parameters, stall time.Duration) response {
	order := params.Order(moqt.Ascending)
	return response{
		req: req, payers: by.Payers, turns: by.Turns, priority: params.Priority(), stall: stall,
		order: order, encoder: moqt.NewFetchEncoder(by.Version, order), gap: gap{existence: track.Present},
		filters: params.RangeFilters,
	}
}

// last returns the location of a range that comes last in the response.
func (r *response) last(of moqt.Range) moqt.Location {
	if r.order == moqt.Descending && of.Start.Group < of.End.Group {
		return moqt.Location{Group: of.Start.Group, Object: moqt.MaxLocation.Object}
	}
	return of.End
}

// skip records that no objects are sent up to end, and why. Gaps mean that objects do not exist; only unknown locations
// have to be marked, and marked apart from absent ones (draft §11.4.4.2).
func (r *response) skip(e track.Existence, end moqt.Location) error {
	if r.gap.existence != e && r.gap.existence != track.Present {
		if err := r.mark(); err != nil {
			return err
		}
	}
	r.gap = gap{e, end}
	return nil
}

// endGap ends the gap before an object or the end of the response.
func (r *response) endGap() error {
	if r.gap.existence == track.Unknown {
		return r.mark()
	}
	r.gap.existence = track.Present
	return nil
}

// mark sends an End of Range indicator for the gap.
func (r *response) mark() error {
	kind := moqt.FetchKindNonExistent
	if r.gap.existence == track.Unknown {
		kind = moqt.FetchKindUnknown
		if r.late() {
			kind = moqt.FetchKindTimedOut
		}
	}
	r.gap.existence = track.Present
	return r.encode(&moqt.FetchObject{Kind: kind, Location: r.gap.end})
}

// header sends the fields of an object that precede its payload, if the object passes the filters.
func (r *response) header(o *moqt.FetchObject) error {
	r.skips = !r.filters.Pass(&moqt.FilteredObject{
		Subgroup: o.SubgroupID, Datagram: o.Datagram, ID: o.Location.Object, Priority: o.Priority,
		Properties: o.Properties,
	})
	if r.skips {
		return r.passOver(skippedSize + len(o.Properties))
	}
	if err := r.endGap(); err != nil {
		return err
	}
	return r.encode(o)
}

func (r *response) encode(o *moqt.FetchObject) error {
	b, err := r.encoder.AppendObject(r.buf[:0], o)
	if err != nil {
		return err
	}
	r.buf = b
	return r.write(b)
}

// payload sends a part of the payload of the object whose header was sent last.
func (r *response) payload(b []byte) error {
	if r.skips {
		return r.passOver(len(b))
	}
	return r.write(b)
}

// skippedSize is how many bytes an object that does not pass the filters counts as, besides its properties and payload.
const skippedSize = 16

// passOver counts bytes that are not sent as if they were: to look at them costs the relay as much.
func (r *response) passOver(n int) error {
	r.await(n)
	return context.Cause(r.req.Context())
}

// await waits until the response may send n bytes, for which the subscriber pays, and for its turn.
func (r *response) await(n int) {
	r.payers.Await(r.req.Context(), charge.DownloadRate)
	r.payers.Count(charge.DownloadRate, n)
	r.turns.take(r)
}

// write sends bytes at the response's turn.
func (r *response) write(b []byte) error {
	r.await(len(b))
	if err := r.stream.SetWriteDeadline(time.Now().Add(r.stall)); err != nil {
		return err
	}
	_, err := r.stream.Write(b)
	return err
}

// pause lets other responses go on while this one has nothing to send.
func (r *response) pause() { r.turns.give(r) }
