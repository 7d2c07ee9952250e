package session

import (
	"context"
	"errors"
	"fmt"
	"os"

	"sluice/moqt"
	"sluice/transport"
)

// Fetch is a FETCH of ours (draft §10.12).
type Fetch struct {
	*Request
	baseRole
	request moqt.Fetch
	arrived chan struct{} // closed when data is valid
	data    *fetchStream

	// Guarded by s.mu.
	ok      *moqt.FetchOK
	drained bool // the data was read to its end
}

// Fetch asks for objects that were published already. The Request ID of the message is filled in; a joining fetch
// names its subscription by [Request.ID]. It waits only for a stream, at the peer's limit.
func (s *Session) Fetch(ctx context.Context, m moqt.Fetch) (*Fetch, error) {
	f := &Fetch{request: m, arrived: make(chan struct{})}
	err := s.request(ctx, s.waitForStream, &m, func(r *Request) role {
		f.Request = r
		return f
	})
	if err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	return f, nil
}

// Wait waits for FETCH_OK, which may come before, during and after the data. Giving up does not cancel the fetch.
func (f *Fetch) Wait(ctx context.Context) (*moqt.FetchOK, error) {
	if err := f.wait(ctx); err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	return f.ok, nil
}

// Stream waits for the stream with the objects, and returns it after its header. The fetch is over when the stream was
// read to its end and FETCH_OK has come; to end it earlier, call [Request.Cancel].
func (f *Fetch) Stream(ctx context.Context) (transport.ReceiveStream, error) {
	if err := f.await(ctx, f.arrived); err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	return f.data, nil
}

// Update changes the parameters of the fetch with REQUEST_UPDATE, and waits for the response.
func (f *Fetch) Update(ctx context.Context, parameters moqt.Parameters) error {
	_, err := f.update(ctx, parameters, nil)
	return err
}

// admit implements role.
func (f *Fetch) admit() error {
	f.s.fetches[f.id] = f
	return nil
}

// accepted implements role.
func (f *Fetch) accepted(m moqt.Message) error {
	ok := m.(*moqt.FetchOK)
	if typ, found := ok.Properties.Mandatory(nil); found {
		f.abort(moqt.ResetCancelled,
			refuse(moqt.RequestUnsupportedExtension, "mandatory track property %#x is not supported", typ))
		return nil
	}
	if start, known := f.start(); known {
		if err := ok.CheckStart(start); err != nil {
			return err
		}
	}
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.ok = ok
	f.markAccepted() // before the end that may follow
	f.finish()
	return nil
}

// start is the start of the range. That of a relative fetch is for the publisher to say.
func (f *Fetch) start() (moqt.Location, bool) {
	switch f.request.FetchType {
	case moqt.FetchStandalone:
		return f.request.Start, true
	case moqt.FetchAbsoluteJoining:
		return moqt.Location{Group: f.request.JoiningStart}, true
	}
	return moqt.Location{}, false
}

// ended implements role.
func (f *Fetch) ended() {
	delete(f.s.fetches, f.id)
	if f.data != nil {
		f.data.CancelRead(uint64(moqt.ResetCancelled))
	}
	f.s.notify()
}

// finish ends the fetch if nothing is missing, with s.mu held.
func (f *Fetch) finish() {
	if f.ok != nil && f.drained && f.endLocked(ErrFinished) {
		f.out.finish()
	}
}

// fetchStream notices the end of the data.
type fetchStream struct {
	transport.ReceiveStream
	fetch *Fetch
}

func (f *fetchStream) Read(p []byte) (int, error) {
	n, err := f.ReceiveStream.Read(p)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		f.fetch.s.mu.Lock()
		defer f.fetch.s.mu.Unlock()
		f.fetch.drained = true
		f.fetch.finish()
	}
	return n, err
}

// takeFetchStream hands a fetch stream to the fetch that it answers (draft §11.4.4).
func (s *Session) takeFetchStream(h *headerReader) error {
	header, err := parseHeader(h, func(b []byte) (moqt.FetchHeader, int, error) {
		return moqt.ParseFetchHeader(s.version, b)
	})
	if err != nil {
		return err
	}
	if err := h.clearDeadline(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.fetches[header.RequestID]
	switch {
	case f == nil && (header.RequestID%2 != uint64(s.cfg.Role) || header.RequestID >= s.nextID):
		return violation("fetch stream for request %d, which was never made", header.RequestID)
	case f == nil:
		h.stream.CancelRead(uint64(moqt.ResetCancelled)) // cancelled meanwhile
	case f.data != nil:
		return violation("second stream for fetch %d", header.RequestID)
	default:
		f.data = &fetchStream{h.stream, f}
		close(f.arrived)
	}
	return nil
}
