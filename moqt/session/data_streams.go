package session

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/moqt"
	"sluice/moqt/qlog"
	"sluice/transport"
)

// Subgroup is a subgroup stream of a subscription. Read continues after the header.
type Subgroup struct {
	transport.ReceiveStream
	Header       moqt.SubgroupHeader
	Subscription *Subscription
}

// dataStreams takes the unidirectional streams of the peer. Each stream has a goroutine of its own.
type dataStreams struct {
	s    *Session
	held semaphore // streams that wait for SETUP, or for the message that assigns their alias

	arriving sync.WaitGroup // streams that no receiver has yet, and the queue of datagrams
}

// accept takes the streams that the peer opens.
func (d *dataStreams) accept() {
	for {
		stream, err := d.s.conn.AcceptUniStream(d.s.ctx)
		if err != nil {
			d.s.failUnlessEnded(err)
			break
		}
		h := &headerReader{stream: stream}
		d.arriving.Add(1)
		h.arrived = sync.OnceFunc(d.arriving.Done)
		if !d.s.spawn(func() { d.take(h) }) {
			h.arrived()
		}
	}
	d.arriving.Wait()
	select {
	case <-d.s.conn.Context().Done(): // it may be done only after AcceptUniStream has failed
		d.s.failWithTransport()
	case <-d.s.ctx.Done():
	}
}

// take handles a unidirectional stream (draft §3.4).
func (d *dataStreams) take(h *headerReader) {
	defer h.arrived()
	err := d.dispatch(h)
	_, reset := errors.AsType[*transport.StreamError](err)
	timeout := errors.Is(err, os.ErrDeadlineExceeded)
	switch {
	case err == nil || reset:
	case timeout && len(h.b) == 0: // the stream was never used
		h.stream.CancelRead(uint64(moqt.ResetCancelled))
	case timeout:
		d.s.fail(closes(moqt.SessionDataStreamTimeout, "a stream header was not completed in time"))
	default:
		d.s.failUnlessEnded(err)
	}
}

// begin waits for the first byte of a stream. QUIC opens a stream with any later one: a publisher that is behind may
// not have come to it, or sends it again behind others. So it may take its time while there is a subscription.
func (d *dataStreams) begin(h *headerReader) error {
	for {
		if err := h.setDeadline(); err != nil {
			return err
		}
		err := h.readByte()
		switch {
		case err == nil:
			return h.setDeadline()
		case !errors.Is(err, os.ErrDeadlineExceeded) || !d.areExpected():
			return err
		}
	}
}

// areExpected reports whether streams of a subscription may come.
func (d *dataStreams) areExpected() bool {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	return len(d.s.table.aliases.live) > 0
}

func (d *dataStreams) dispatch(h *headerReader) error {
	if err := d.begin(h); err != nil {
		return err
	}
	kind, err := parseHeader(h, func(b []byte) (moqt.StreamKind, int, error) {
		kind, err := moqt.ParseStreamKind(d.s.version, b)
		return kind, 0, err
	})
	if err != nil {
		return err
	}
	if kind == moqt.StreamControl {
		d.s.qlog.Control(qlog.Parsed, h.stream.ID())
		h.arrived()
		return d.s.control.run(h)
	}
	if !d.holdUntilReady() {
		h.stream.CancelRead(uint64(moqt.ResetExcessiveLoad))
		return nil
	}
	switch kind {
	case moqt.StreamSubgroup:
		return d.takeSubgroup(h)
	case moqt.StreamFetch:
		return d.takeFetch(h)
	}
	if err := h.clearDeadline(); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, h.stream) // padding (draft §11.5.1)
	return err
}

// holdUntilReady waits until the peer's SETUP has arrived. It returns false if too many streams wait already, or the
// session has ended.
func (d *dataStreams) holdUntilReady() bool {
	if d.s.control.isReady() {
		return true
	}
	if !d.held.tryAcquire() {
		return false
	}
	defer d.held.release()
	return d.s.control.awaitReady(d.s.conn.Context()) == nil
}

// takeSubgroup hands a subgroup stream to the receiver of its subscription.
func (d *dataStreams) takeSubgroup(h *headerReader) error {
	header, err := parseHeader(h, func(b []byte) (moqt.SubgroupHeader, int, error) {
		return moqt.ParseSubgroupHeader(d.s.version, b)
	})
	if err != nil {
		return err
	}
	if err := h.clearDeadline(); err != nil {
		return err
	}
	d.s.qlog.Subgroup(qlog.Parsed, h.stream.ID(), header)
	// Without this, a stream that is not read to its end would keep its flow control credit.
	defer h.stream.CancelRead(uint64(moqt.ResetCancelled))
	sub := d.awaitSubscription(header.TrackAlias)
	if sub == nil {
		d.s.log.Debug("subgroup stopped", "stream", h.stream.ID(), "alias", header.TrackAlias)
		return nil
	}
	g := &Subgroup{ReceiveStream: h.stream, Header: header, Subscription: sub}
	if sub.drain.begin(g) {
		h.arrived()
		if sub.receiver != nil {
			sub.receiver.HandleSubgroup(g)
		}
		sub.drain.end(g)
	}
	return nil
}

// awaitSubscription returns the subscription that an alias belongs to. It waits at most Config.Hold for the message
// that assigns the alias, and until the application accepts a PUBLISH (draft §11.4.2). The data waits in the transport,
// within its flow control window.
func (d *dataStreams) awaitSubscription(alias uint64) *Subscription {
	return d.await(func() (*Subscription, <-chan struct{}) { return d.s.table.subscription(alias) })
}

// await calls find, with s.mu held, until it returns no channel. It waits at most Config.Hold.
func (d *dataStreams) await(findLocked func() (*Subscription, <-chan struct{})) *Subscription {
	find := func() (*Subscription, <-chan struct{}) {
		d.s.mu.Lock()
		defer d.s.mu.Unlock()
		return findLocked()
	}
	sub, wait := find()
	if wait == nil {
		return sub
	}
	if !d.held.tryAcquire() {
		return nil
	}
	defer d.held.release()
	timer := time.NewTimer(d.s.cfg.Hold)
	defer timer.Stop()
	for wait != nil {
		select {
		case <-wait:
		case <-timer.C:
			return nil
		case <-d.s.conn.Context().Done(): // the message has not arrived
			return nil
		case <-d.s.ctx.Done():
			return nil
		}
		sub, wait = find()
	}
	return sub
}

// takeFetch hands a fetch stream to the fetch that it answers (draft §11.4.4).
func (d *dataStreams) takeFetch(h *headerReader) error {
	header, err := parseHeader(h, func(b []byte) (moqt.FetchHeader, int, error) {
		return moqt.ParseFetchHeader(d.s.version, b)
	})
	if err != nil {
		return err
	}
	if err := h.clearDeadline(); err != nil {
		return err
	}
	d.s.qlog.Fetch(qlog.Parsed, h.stream.ID(), header.RequestID)
	if sub := d.takeFillRequest(header.RequestID); sub != nil {
		d.takeFill(h, header.RequestID, sub)
		return nil
	}
	if d.isFillOfOffer(header.RequestID) {
		return d.takeFillOfOffer(h, header.RequestID)
	}
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	f := d.s.table.fetches[header.RequestID]
	switch {
	case f == nil && !d.s.requester.hasUsedLocked(header.RequestID):
		return violation("fetch stream for request %d, which was never made", header.RequestID)
	case f == nil:
		h.stream.CancelRead(uint64(moqt.ResetCancelled)) // the fetch was cancelled
	case f.data != nil:
		return violation("second stream for fetch %d", header.RequestID)
	default:
		f.data = &fetchStream{h.stream, f}
		close(f.arrived)
	}
	return nil
}

// takeFillRequest returns the subscription that has asked for a fill, whose stream has come, or nil.
func (d *dataStreams) takeFillRequest(id uint64) *Subscription {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	return d.s.table.takeFill(id)
}

// isFillOfOffer reports whether a fetch stream may be the fill of a PUBLISH of the peer.
func (d *dataStreams) isFillOfOffer(id uint64) bool {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	return len(d.s.table.filled) > 0 && id%2 != uint64(d.s.cfg.Role)
}

// takeFillOfOffer takes the stream of a fill that a SUBSCRIBE_TRACKS has asked for. The subscription begins with the
// PUBLISH, whose Request ID the stream has. It may come before that.
func (d *dataStreams) takeFillOfOffer(h *headerReader, id uint64) error {
	sub := d.await(func() (*Subscription, <-chan struct{}) {
		return d.s.table.offered(id, d.s.responder.mayArrive(id))
	})
	if sub == nil { // it is not wanted
		h.stream.CancelRead(uint64(moqt.ResetCancelled))
		return nil
	}
	d.s.mu.Lock()
	asked := slices.ContainsFunc(d.s.table.filled, sub.track.Namespace.HasPrefix)
	again := sub.filled
	sub.filled = true
	d.s.mu.Unlock()
	switch {
	case !asked:
		return violation("fill of %s without a request", sub.track)
	case again:
		return violation("second fill of %s for one request", sub.track)
	}
	d.takeFill(h, id, sub)
	return nil
}

// takeFill hands the stream of a fill to the receiver of its subscription (draft-20 §5.1.3).
func (d *dataStreams) takeFill(h *headerReader, id uint64, sub *Subscription) {
	defer h.stream.CancelRead(uint64(moqt.ResetCancelled))
	f := &Fill{h.stream, id, sub}
	if !sub.drain.begin(f) {
		return
	}
	h.arrived()
	if receiver, ok := sub.receiver.(FillReceiver); ok {
		receiver.HandleFill(f)
	}
	sub.drain.end(f)
}

// headerReader reads the start of a stream, byte by byte, so that it reads nothing beyond the header.
type headerReader struct {
	stream  transport.ReceiveStream
	b       []byte
	arrived func() // is called when a receiver has the stream, or nobody wants it
}

func (h *headerReader) readByte() error {
	var b [1]byte
	_, err := io.ReadFull(h.stream, b[:])
	switch {
	case errors.Is(err, io.EOF):
		return violation("stream ends within its header")
	case err != nil:
		return err
	}
	h.b = append(h.b, b[0])
	return nil
}

// setDeadline sets the deadline for the first byte, or for the rest of the header.
func (h *headerReader) setDeadline() error {
	return h.stream.SetReadDeadline(time.Now().Add(headerTimeout))
}

func (h *headerReader) clearDeadline() error { return h.stream.SetReadDeadline(time.Time{}) }

// parseHeader reads until parse returns something other than ErrIncomplete.
func parseHeader[T any](h *headerReader, parse func([]byte) (T, int, error)) (T, error) {
	for {
		v, _, err := parse(h.b)
		if !errors.Is(err, moqt.ErrIncomplete) {
			return v, err
		}
		if err := h.readByte(); err != nil {
			return v, err
		}
	}
}

// dataStream is a data stream of this end. It is reset if its request ends while it is open.
type dataStream struct {
	transport.SendStream
	closed atomic.Bool
}

// Close implements [transport.SendStream].
func (d *dataStream) Close() error {
	d.closed.Store(true)
	return d.SendStream.Close()
}

// CancelWrite implements [transport.SendStream].
func (d *dataStream) CancelWrite(code uint64) {
	d.closed.Store(true)
	d.SendStream.CancelWrite(code)
}

// openDataStream opens a stream for the data of a request, and sends its header.
func openDataStream(ctx context.Context, r *Request, header []byte) (transport.SendStream, error) {
	if r.ctx.Err() != nil {
		return nil, context.Cause(r.ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.ctx, func() { cancel(context.Cause(r.ctx)) })()
	if err := r.Flush(ctx); err != nil {
		return nil, err
	}
	stream, err := r.s.conn.OpenUniStreamSync(ctx)
	if err != nil {
		return nil, err
	}
	d := &dataStream{SendStream: stream}
	reset := func() {
		if !d.closed.Load() {
			d.CancelWrite(uint64(moqt.ResetCancelled))
		}
	}
	stop := context.AfterFunc(r.ctx, reset)
	context.AfterFunc(stream.Context(), func() {
		stop()
		reset() // after STOP_SENDING the transport waits for the reset
	})
	if err := d.writeHeader(header); err != nil {
		reset()
		return nil, err
	}
	return d, nil
}

// openFetchStream opens a stream for what a request of the peer fetches, and sends its header.
func openFetchStream(ctx context.Context, r *Request, id uint64) (transport.SendStream, error) {
	stream, err := openDataStream(ctx, r, moqt.AppendFetchHeader(nil, r.s.version, moqt.FetchHeader{RequestID: id}))
	if err == nil {
		r.s.qlog.Fetch(qlog.Created, stream.ID(), id)
	}
	return stream, err
}

func (d *dataStream) writeHeader(header []byte) error {
	if err := d.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if _, err := d.Write(header); err != nil {
		return err
	}
	return d.SetWriteDeadline(time.Time{})
}
