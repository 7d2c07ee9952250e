package session

import (
	"context"
	"fmt"

	"sluice/moqt"
	"sluice/moqt/qlog"
	"sluice/transport"
)

// Publication is the publisher's end of a subscription (draft §5.1), whichever end asked for it: [Handler] gets one
// for each SUBSCRIBE, and [Session.Publish] returns one.
type Publication struct {
	*Request
	baseRole
	track moqt.FullTrackName
	alias uint64
	asked moqt.Parameters // of the SUBSCRIBE, or of the PUBLISH

	// Guarded by s.mu.
	parameters   moqt.Parameters // of the subscriber, with updates, without a fill
	forward      bool
	joining      *moqt.Location
	established  bool
	streams      uint64
	updateDenied bool
}

// newSubscribed returns the publication that a SUBSCRIBE of the peer asks for.
func newSubscribed(r *Request, m *moqt.Subscribe) *Publication {
	p := &Publication{Request: r, track: m.Track, parameters: m.Parameters, forward: m.Parameters.ForwardState()}
	p.asked, p.parameters.Fill = m.Parameters, nil
	return p
}

// Track returns the track.
func (p *Publication) Track() moqt.FullTrackName { return p.track }

// Alias returns the Track Alias for data streams and datagrams. It is valid once the subscription is Established, or
// was offered by Publish.
func (p *Publication) Alias() uint64 { return p.alias }

// Parameters returns the subscriber's parameters, from SUBSCRIBE or PUBLISH_OK and the updates accepted since.
func (p *Publication) Parameters() moqt.Parameters {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.parameters
}

// Forward returns the Forward State: whether objects are to be sent.
func (p *Publication) Forward() bool {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.forward
}

// Accept answers a SUBSCRIBE with SUBSCRIBE_OK. The parameters have LargestObject if objects have been published, and
// HopPath if they come from another relay. It fails with ErrLoop, and does not answer, if they come from the peer.
func (p *Publication) Accept(parameters moqt.Parameters, properties moqt.Properties) error {
	if err := p.s.control.addHop(moqt.MessageSubscribeOK, &parameters); err != nil {
		return err
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	alias := p.s.requester.nextAlias
	ok := &moqt.SubscribeOK{TrackAlias: alias, Parameters: parameters}
	if p.parameters.WantsProperties() && (len(properties) == 0 || !p.s.Tolerates(MisreadsTrackProperties)) {
		ok.Properties = properties
	}
	if parameters.LargestObject != nil && p.s.Tolerates(MisreadsLargestObject) {
		ok.Parameters.LargestObject = nil
	}
	if err := p.answerLocked(ok); err != nil {
		return err
	}
	p.s.requester.nextAlias++
	p.alias = alias
	p.joining = parameters.LargestObject
	p.established = true
	p.s.table.notify()
	return nil
}

// Wait waits for the response to a PUBLISH. The end of ctx does not cancel the request.
func (p *Publication) Wait(ctx context.Context) error { return p.wait(ctx) }

// AddStreams counts data streams of the subscription that were not opened with OpenSubgroup.
func (p *Publication) AddStreams(n uint64) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.streams += n
}

// OpenSubgroup opens a stream for a subgroup, counts it, and sends its header, with the Track Alias filled in. The
// stream is reset when the subscription ends. OpenSubgroup waits only while the peer's stream limit is reached.
func (p *Publication) OpenSubgroup(ctx context.Context, h moqt.SubgroupHeader) (transport.SendStream, error) {
	h.TrackAlias = p.alias
	if most := p.s.version.DataLayout().MaxNumber(); max(h.GroupID, h.SubgroupID) > most {
		return nil, fmt.Errorf("subgroup %d of group %d: ids must be at most %d in this version",
			h.SubgroupID, h.GroupID, most)
	}
	stream, err := openDataStream(ctx, p.Request, moqt.AppendSubgroupHeader(nil, p.s.version, h))
	if err == nil {
		p.s.qlog.Subgroup(qlog.Created, stream.ID(), h)
		p.AddStreams(1)
	}
	return stream, err
}

// SendDatagram sends an object in a datagram, with the Track Alias filled in. It fails with
// [transport.ErrDatagramTooLarge] if the object does not fit.
func (p *Publication) SendDatagram(o moqt.ObjectDatagram) error {
	if err := p.ctx.Err(); err != nil {
		return context.Cause(p.ctx)
	}
	o.TrackAlias = p.alias
	b, err := moqt.AppendDatagramHeader(nil, p.s.version, &o)
	if err != nil {
		return err
	}
	return p.s.conn.SendDatagram(append(b, o.Payload...))
}

// Notify tells the subscriber, by PUBLISH_STATE_NOTIFY, changes of the subscription that it has not asked for. The
// parameters have LargestObject if objects have been published. Versions before draft-20 cannot say so, and Notify does
// nothing.
func (p *Publication) Notify(parameters moqt.Parameters) error {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	switch {
	case p.over:
		return context.Cause(p.ctx)
	case p.remote && !p.answered:
		return ErrUnanswered
	case !p.s.version.HasStateNotify():
		return nil
	}
	return p.send(&moqt.StateNotify{Parameters: parameters}, false)
}

// Done ends the subscription with PUBLISH_DONE. The caller must have closed or reset its streams (draft §10.11); Done
// resets open streams of OpenSubgroup. If an update was refused, the code becomes UPDATE_FAILED.
func (p *Publication) Done(code moqt.PublishDoneCode, reason string) error {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.over {
		return context.Cause(p.ctx)
	}
	if p.remote && !p.answered {
		return ErrUnanswered
	}
	if p.updateDenied {
		code = moqt.DoneUpdateFailed
	}
	done := moqt.PublishDone{Status: code, StreamCount: min(p.streams, moqt.UnknownStreamCount), Reason: reason}
	if err := p.send(&done, true); err != nil {
		return err
	}
	p.endLocked(ErrFinished)
	return nil
}

// admitLocked implements role.
func (p *Publication) admitLocked() error {
	var err error
	if !p.s.version.HasSharedTracks() {
		err = p.s.table.mayBegin(p.track, true)
	}
	if err != nil && p.remote {
		return refuse(moqt.RequestDuplicateSubscription, "%v", err)
	}
	if err == nil {
		p.s.table.publications[p.track.Key()] = p
	}
	return err
}

// serve implements role.
func (p *Publication) serve(h Handler) { h.HandleSubscribe(p) }

// accepted implements role: the peer has sent PUBLISH_OK.
func (p *Publication) accepted(m moqt.Message) error {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if ok := m.(*moqt.RequestOK); p.s.version.AnswersWithParameters() {
		p.parameters.Merge(&ok.Parameters)
		p.forward = ok.Parameters.ForwardState()
	}
	p.established = true
	p.s.table.notify()
	return nil
}

// message implements role. Some subscribers send UNSUBSCRIBE where the draft has STOP_SENDING.
func (p *Publication) message(m moqt.Message) error {
	if _, ok := m.(*moqt.Unsubscribe); !ok {
		return p.baseRole.message(m)
	}
	p.end(&transport.StreamError{Code: uint64(moqt.ResetCancelled), Remote: true})
	p.out.finish()
	return nil
}

// updateLocked implements role.
func (p *Publication) updateLocked(u *Update, response *moqt.Parameters) *moqt.RequestError {
	updated := p.parameters
	updated.Merge(&u.Parameters) // but for a fill
	if err := updated.RangeFilters.Check(uint64(p.s.cfg.MaxFilterRanges), false); err != nil {
		return refuse(moqt.RequestInvalidFilter, "%v", err)
	}
	p.parameters = updated
	if u.Parameters.Forward != nil {
		// An update from Forward 0 to 1 sets the Joining Location (draft §5.1).
		if *u.Parameters.Forward && !p.forward {
			p.joining = response.LargestObject
		}
		p.forward = *u.Parameters.Forward
	}
	return nil
}

// updateFailed implements role.
func (p *Publication) updateFailed() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.updateDenied = true
}

// endedLocked implements role.
func (p *Publication) endedLocked() {
	key := p.track.Key()
	if p.s.table.publications[key] == p {
		delete(p.s.table.publications, key)
	}
	p.s.table.notify()
}

// Fill returns the fill that the SUBSCRIBE or, if u is not nil, its update asks for. largest is the Largest Object that
// the answer told. It returns nil if there is nothing to send. The fill ends with the publication, and counts as an
// open FETCH: if the peer has too many, it is refused. A peer that also has no streams for the refusals loses the
// subscription.
func (p *Publication) Fill(u *Update, largest *moqt.Location) *FillRequest {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	f := &FillRequest{pub: p, id: p.id}
	asked := p.asked.Fill
	if u != nil {
		f.id, asked = u.ID, u.Parameters.Fill
	}
	if asked == nil || !p.forward || p.over || largest == nil {
		return nil
	}
	whole := p.parameters
	whole.Fill = asked
	f.Parameters = whole.Filling()
	f.Range = f.Parameters.Filter.FillRange(*largest)
	if f.Range.Empty() {
		return nil
	}
	load := &p.s.responder.load[loadFetches]
	*load++
	f.ctx, f.cancel = context.WithCancel(p.ctx)
	context.AfterFunc(f.ctx, func() {
		p.s.mu.Lock()
		defer p.s.mu.Unlock()
		*load--
	})
	if *load > p.s.cfg.MaxFetches {
		p.s.cfg.Refused(moqt.RequestExcessiveLoad)
		if *load > p.s.cfg.MaxFetches+maxRefusedFills {
			f.cancel()
			p.s.spawn(func() { p.abort(moqt.ResetExcessiveLoad, errTooManyFills) })
			return nil
		}
		f.rejectLocked(moqt.ResetExcessiveLoad)
		return nil
	}
	return f
}
