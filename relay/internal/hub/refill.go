package hub

import (
	"bytes"
	"context"
	"errors"
	"math"
	"time"

	"sluice/moqt"
	"sluice/relay/internal/fetch"
	"sluice/track"
)

const (
	// maxRefill is how many groups are fetched at each end of what came while nobody brought the track. Between the two
	// there may be nothing: a publisher that was restarted counts groups from another time.
	maxRefill = 256
	// maxRefilled bounds the streams that are made of a group in such a response.
	maxRefilled = 64
)

var errTooManyStreams = errors.New("too many subgroups or gaps in a FETCH response")

// refill fetches missed objects (see publishers.missed), and gives it to the track as if it came on a subscription:
// so subscribers get what they have not got yet, and objects that came before are compared.
type refill struct {
	upstream *upstream
	data     *track.Track
	wanted   moqt.Range
	passed   moqt.Location         // datagrams before it are not sent: the kernel may have done that, or they were lost
	await    func(context.Context) // until user space has what the kernel has forwarded of it
	cancel   context.CancelFunc

	group    uint64               // the current one
	last     uint64               // its last object so far
	open     map[uint64]*refilled // its subgroups
	streams  int                  // that were made of it
	unknown  *moqt.Location       // the upstream relay knows nothing of what precedes it
	behind   bool                 // what comes is behind objects of the group that are not known
	complete bool                 // the group has no more objects
	lacking  uint64               // the first group with a hole, or without any object; MaxUint64: none
	current  *refilled            // the subgroup, or
	datagram *track.Datagram      // the datagram whose payload comes; neither if the object is not taken
}

// refilled is a subgroup in a response.
type refilled struct {
	source  *track.Source
	encoder moqt.SubgroupEncoder
	last    uint64 // object
	marked  bool   // its header says that it has the last object of the group
}

// ends returns the parts of a range that are fetched: maxRefill groups at each end, or all of them.
func ends(r moqt.Range) []moqt.Range {
	switch first, last := r.Start.Group, r.End.Group; {
	case r.Empty():
		return nil
	case last-first < 2*maxRefill:
		return []moqt.Range{r}
	default:
		return []moqt.Range{
			{Start: r.Start, End: moqt.Location{Group: first + maxRefill - 1, Object: math.MaxUint64}},
			{Start: moqt.Location{Group: last - maxRefill + 1}, End: r.End},
		}
	}
}

// run fetches. If nobody has the objects any more, or knows FETCH, subscribers have a gap. It goes on when the
// publisher has ended the subscription: that may have brought all that is new long before.
func (r *refill) run() {
	u := r.upstream
	ctx, cancel := context.WithCancel(u.peer.Session.Context())
	defer cancel()
	defer context.AfterFunc(u.sub.Context(), func() {
		if !isFinal(context.Cause(u.sub.Context())) {
			cancel()
		}
	})()
	r.cancel = cancel
	r.await(ctx)
	answered := r.fetch(ctx)
	u.hub.mu.Lock()
	defer u.hub.mu.Unlock()
	if !answered && u.hub.data == r.data {
		u.hub.publishers.lacking = min(u.hub.publishers.lacking, r.wanted.Start.Group)
	}
	u.refills--
	u.hub.publishers.refills--
	u.hub.choice.settle()
}

// fetch asks the upstream relay. If groups are still missing, it asks the next source for them. An upstream relay that
// is going away takes no requests. A publisher that has moved has left groups with another process of the relay. If no
// response was complete, fetch returns false: the next upstream is asked for the rest.
func (r *refill) fetch(ctx context.Context) (answered bool) {
	h, end := r.upstream.hub, r.wanted.End
	subscribers := asker{&Peer{Terms: Terms{Reach: Elsewhere}}, r.upstream.asked}
	budget := fetch.NewBudget(h.directory.Fetch.Fill, &moqt.Parameters{})
	for p := range h.choice.sources(ctx, &budget, subscribers) {
		err := r.ask(ctx, p, &budget)
		if r.end(err); err == nil {
			answered = true
			if r.lacking == math.MaxUint64 {
				break
			}
		}
		r.wanted = moqt.Range{Start: moqt.Location{Group: min(r.group, r.lacking)}, End: end}
	}
	return answered
}

// ask asks a peer, and takes in the response. It returns an error unless that was complete.
func (r *refill) ask(ctx context.Context, p *Peer, b *fetch.Budget) error {
	r.group, r.streams, r.behind, r.complete = r.wanted.Start.Group, 0, false, false
	r.unknown, r.lacking = nil, math.MaxUint64
	u, order := r.upstream, moqt.Ascending
	params := moqt.Parameters{GroupOrder: &order, HopPath: u.asked}
	pull, err := fetch.Ask(ctx, u.hub.source(p), b, r.wanted, params)
	if err != nil {
		return err
	}
	defer pull.Close()
	r.wanted = r.wanted.Intersect(moqt.Range{Start: r.wanted.Start, End: pull.Covered})
	return pull.Copy(ctx, r)
}

// TakeItem implements fetch.Taker.
func (r *refill) TakeItem(o *moqt.FetchObject) error {
	r.current, r.datagram = nil, nil
	switch {
	case o.Kind == moqt.FetchKindNonExistent:
		end := moqt.Location{Group: r.group, Object: math.MaxUint64}
		r.complete = r.complete || o.Location == end && r.unknown == nil
		return nil
	case o.Kind != moqt.FetchKindObject: // it is not known whether objects exist
		at := o.Location
		r.unknown = &at
		if at.Group > r.group || at.Object < math.MaxUint64 {
			r.lacking = min(r.lacking, r.group)
		}
		return nil
	case !r.wanted.Contains(o.Location):
		return errors.New("an object is not in the range of the FETCH")
	case o.Location.Group == r.group:
		if r.unknown != nil {
			// The unknown ones may be of these subgroups, or datagrams that were lost: so objects behind them come on
			// other streams, which do not say that there is nothing in between.
			r.endGroup(false)
			r.behind = true
		}
	default:
		r.endGroup(r.isWhole())
		r.group, r.streams, r.complete = o.Location.Group, 0, false
		r.behind = r.unknown != nil && r.unknown.Group == r.group
	}
	r.unknown, r.last = nil, o.Location.Object
	if o.Datagram {
		return r.takeDatagram(o)
	}
	s, err := r.subgroup(o)
	if err != nil {
		return err
	}
	r.current, s.last = s, r.last
	return s.add(moqt.ObjectHeader{
		ObjectID: o.Location.Object, Properties: o.Properties, PayloadLength: o.PayloadLength,
	})
}

// isWhole reports whether the current group has all objects before the next one. That a relay does not know whether a
// group has more objects than it has got is usual, as few publishers say where groups end. It is then marked up to its
// end, and no further.
func (r *refill) isWhole() bool {
	return r.unknown == nil || *r.unknown == moqt.Location{Group: r.group, Object: math.MaxUint64} ||
		r.complete && r.group < r.unknown.Group
}

// isEnded reports whether the response says that the group has no more objects.
func (r *refill) isEnded() bool { return r.unknown == nil || r.complete }

// subgroup returns the subgroup of an object. Groups are fetched from their start, so the first object in the response
// is that of the subgroup, unless it is behind unknown ones.
func (r *refill) subgroup(o *moqt.FetchObject) (*refilled, error) {
	if s := r.open[o.SubgroupID]; s != nil {
		return s, nil
	}
	if r.streams++; r.streams > maxRefilled {
		return nil, errTooManyStreams
	}
	h := moqt.SubgroupHeader{
		GroupID: o.Location.Group, SubgroupIDMode: moqt.SubgroupIDPresent, SubgroupID: o.SubgroupID,
		Priority: o.Priority, HasProperties: true, FirstObject: !r.behind,
	}
	if m := r.data.EndMark(); m != nil {
		h.EndOfGroup = m.Subgroup == o.SubgroupID && !m.Status
	}
	s := &refilled{
		marked:  h.EndOfGroup,
		source:  r.data.NewSource(track.SourceConfig{Header: h, Priority: o.Priority, Cancel: r.cancel}),
		encoder: moqt.NewSubgroupEncoder(moqt.DataLayout1, h),
	}
	r.open[o.SubgroupID] = s
	return s, nil
}

// TakePayload implements fetch.Taker.
func (r *refill) TakePayload(p []byte) error {
	r.upstream.receiver.measure(len(p)) // the fetch.Pull charges for it
	switch {
	case r.current != nil:
		return r.current.feed(p)
	case r.datagram != nil:
		r.datagram.Payload = append(r.datagram.Payload, p...)
		return r.sendDatagram()
	}
	return nil
}

// add gives the fields of an object that precede its payload to the track.
func (s *refilled) add(o moqt.ObjectHeader) error {
	b, err := s.encoder.AppendObject(nil, o)
	if err != nil {
		return err
	}
	return s.feed(b)
}

// feed gives bytes of the subgroup's stream to the track.
func (s *refilled) feed(b []byte) error {
	for in := bytes.NewReader(b); in.Len() > 0; {
		if err := s.source.Read(in); err != nil {
			return err
		}
	}
	return nil
}

func (r *refill) takeDatagram(o *moqt.FetchObject) error {
	if o.PayloadLength > math.MaxUint16 {
		return errors.New("an object is too large for a datagram")
	}
	r.datagram = &track.Datagram{
		Group: o.Location.Group, ID: o.Location.Object, Priority: o.Priority, Properties: bytes.Clone(o.Properties),
		Payload: make([]byte, 0, o.PayloadLength), Received: time.Now(),
	}
	return r.sendDatagram()
}

// sendDatagram sends the current datagram when it is complete.
func (r *refill) sendDatagram() error {
	d := r.datagram
	if len(d.Payload) < cap(d.Payload) {
		return nil
	}
	forward, err := r.data.AddDatagram(d)
	if err != nil {
		return err
	}
	if forward && !(moqt.Location{Group: d.Group, Object: d.ID}).Less(r.passed) {
		r.upstream.hub.sendDatagram(d)
	}
	return nil
}

// endGroup ends the subgroups of the current group: with FIN if the response has it whole. Otherwise they are cut:
// streams of the subscription may go on with them. The end is marked as the publisher has marked other groups: players
// wait for such a mark.
func (r *refill) endGroup(whole bool) {
	ended := whole && r.isEnded()
	if ended {
		r.markEnd()
	}
	for _, s := range r.open {
		if whole && (!s.marked || ended && s.last == r.last) {
			_ = s.source.Read(bytes.NewReader(nil)) // unless that contradicts what others say, it is a FIN
		}
		r.upstream.receiver.reportMalformed(s.source.Cut())
	}
	clear(r.open)
}

// markEnd adds an object that marks the end of the current group, if the publisher uses such objects.
func (r *refill) markEnd() {
	m := r.data.EndMark()
	if m == nil || !m.Status || r.open[m.Subgroup] == nil || r.last == math.MaxUint64 {
		return
	}
	// It fails if others say that the group ends elsewhere.
	_ = r.open[m.Subgroup].add(moqt.ObjectHeader{ObjectID: r.last + 1, Status: moqt.StatusEndOfGroup})
}

// end ends the response. An object that contradicts others ends only the response, because what comes on the
// subscription is not in doubt.
func (r *refill) end(err error) {
	r.endGroup(err == nil && r.wanted.End.Object == math.MaxUint64 && r.unknown == nil)
	if u := r.upstream; err != nil {
		u.hub.directory.Log.Debug("what was missed cannot be fetched", "track", u.hub.name,
			"upstream", u.peer.URL, "err", err)
	}
}
