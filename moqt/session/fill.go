package session

import (
	"context"

	"sluice/moqt"
	"sluice/transport"
)

// FillRequest is a fill that the subscriber has asked for (draft-20 §5.1.3): the publisher sends objects of the past,
// on a stream of its own, as in the response to a FETCH.
type FillRequest struct {
	pub    *Publication
	id     uint64
	ctx    context.Context
	cancel context.CancelFunc

	// Parameters of the fill: what the request says, and else those of the subscription.
	Parameters moqt.Parameters
	// Range is what the subscriber asks for. It ends with the Largest Object.
	Range moqt.Range
}

// Fill returns the fill that the SUBSCRIBE or, if u is not nil, its update asks for. largest is the Largest Object that
// the answer told. It returns nil if there is nothing to send. The fill ends with the publication.
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
	f.ctx, f.cancel = context.WithCancel(p.ctx)
	return f
}

// Context is done when the fill or its subscription is over.
func (f *FillRequest) Context() context.Context { return f.ctx }

// OpenStream opens the stream for the objects, counts it, and sends its header. It is reset when the subscription ends.
// OpenStream waits only while the peer's stream limit is reached.
func (f *FillRequest) OpenStream(ctx context.Context) (transport.SendStream, error) {
	header := moqt.AppendFetchHeader(nil, f.pub.s.version, moqt.FetchHeader{RequestID: f.id})
	stream, err := openDataStream(ctx, f.pub.Request, header)
	if err == nil {
		f.pub.AddStreams(1)
	}
	return stream, err
}

// Done ends the fill, after its stream was closed or reset.
func (f *FillRequest) Done() { f.cancel() }
