package session

import (
	"context"
	"errors"

	"sluice/moqt"
	"sluice/transport"
)

// maxRefusedFills is how many refusals of fills wait for a stream at a time.
const maxRefusedFills = 16

var errTooManyFills = errors.New("the peer asks for fills, but has no streams for the refusals")

// FillRequest is a fill that the subscriber has asked for (draft-20 §5.1.3): the publisher sends objects of the past,
// on a stream of its own, as in the response to a FETCH.
type FillRequest struct {
	pub    *Publication
	id     uint64
	ctx    context.Context
	cancel context.CancelFunc
	opened bool // guarded by s.mu

	// Parameters of the fill: from the request, or else from the subscription.
	Parameters moqt.Parameters
	// Range has the requested objects. It ends with the Largest Object.
	Range moqt.Range
}

// Context is done when the fill or its subscription is over.
func (f *FillRequest) Context() context.Context { return f.ctx }

// OK accepts the request. There is no message for that.
func (f *FillRequest) OK(moqt.FetchOK) error { return nil }

// Updates returns a channel that delivers nothing: a fill cannot be updated.
func (f *FillRequest) Updates() <-chan *Update { return nil }

// Reject refuses the fill: it opens the stream and resets it. It fails if the stream is open already.
func (f *FillRequest) Reject(*moqt.RequestError) error {
	f.pub.s.mu.Lock()
	defer f.pub.s.mu.Unlock()
	if f.opened {
		return ErrAnswered
	}
	f.rejectLocked(moqt.ResetInternalError)
	return nil
}

func (f *FillRequest) rejectLocked(code moqt.StreamResetCode) {
	f.opened = true
	ok := f.pub.s.spawn(func() {
		defer f.cancel()
		if stream, err := f.open(f.ctx); err == nil {
			stream.CancelWrite(uint64(code))
		}
	})
	if !ok {
		f.cancel()
	}
}

// OpenStream opens the stream for the objects, counts it, and sends its header. It is reset when the subscription ends.
// OpenStream waits only while the peer's stream limit is reached.
func (f *FillRequest) OpenStream(ctx context.Context) (transport.SendStream, error) {
	f.pub.s.mu.Lock()
	again := f.opened
	f.opened = true
	f.pub.s.mu.Unlock()
	if again {
		return nil, ErrAnswered
	}
	return f.open(ctx)
}

func (f *FillRequest) open(ctx context.Context) (transport.SendStream, error) {
	stream, err := openFetchStream(ctx, f.pub.Request, f.id)
	if err != nil {
		return nil, err
	}
	f.pub.AddStreams(1)
	context.AfterFunc(f.ctx, func() {
		if d := stream.(*dataStream); !d.closed.Load() {
			d.CancelWrite(uint64(moqt.ResetCancelled))
		}
	})
	return stream, nil
}

// Done ends the fill. A stream that was not closed is reset. It never fails.
func (f *FillRequest) Done() error {
	f.cancel()
	return nil
}
