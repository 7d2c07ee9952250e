package transporttest

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"sluice/transport"
)

// stream is a stream: out flows away from the end that opened it, in towards it (nil on unidirectional streams).
type stream struct {
	id      int64
	queue   *streamQueue
	out, in *half
	done    bool
}

func (s *stream) halves() []*half {
	if s.in == nil {
		return []*half{s.out}
	}
	return []*half{s.out, s.in}
}

// initiator and responder are the stream as seen by the end that opened it, and by the other.
func (s *stream) initiator() *streamEnd {
	return &streamEnd{id: s.id, receiver: receiver{s.in}, sender: sender{s.out}}
}
func (s *stream) responder() *streamEnd {
	return &streamEnd{id: s.id, receiver: receiver{s.out}, sender: sender{s.in}}
}

// finish frees the place of a stream under the limit once nothing can happen on it.
func (s *stream) finish() {
	for _, h := range s.halves() {
		if !h.consumed {
			return
		}
	}
	if !s.done {
		s.done = true
		s.queue.used--
	}
}

type streamEnd struct {
	id int64
	receiver
	sender
}

func (e *streamEnd) ID() int64 { return e.id }

// half is one direction of a stream.
type half struct {
	from   *Conn
	stream *stream
	ctx    context.Context
	cancel context.CancelCauseFunc

	buf      []byte // sent and not read
	offset   int64  // of buf[0]
	fin      bool
	reset    *uint64 // code of RESET_STREAM
	stopped  *uint64 // code of STOP_SENDING
	consumed bool    // the receiver knows how it ended, or has cancelled it

	readDeadline, writeDeadline deadline
}

func newHalf(from *Conn, s *stream) *half {
	h := &half{from: from, stream: s}
	h.ctx, h.cancel = context.WithCancelCause(context.Background())
	return h
}

// notice tells the receiver of the stream, and of all streams opened before it (RFC 9000 §3.2).
func (h *half) notice() {
	q := h.stream.queue
	q.noticed = max(q.noticed, int(h.stream.id-q.firstID)/4+1)
	h.from.changed.Broadcast()
}

// discard drops unread bytes, and frees their flow control credit.
func (h *half) discard() {
	h.from.inFlight -= len(h.buf)
	h.offset += int64(len(h.buf))
	h.buf = nil
	h.consumed = true
	h.stream.finish()
	h.from.changed.Broadcast()
}

// receiver is a half as its receiver sees it.
type receiver struct{ in *half }

func (r receiver) Read(p []byte) (int, error) {
	h := r.in
	end := h.from.peer
	h.from.mu.Lock()
	defer h.from.mu.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	ready := func() bool {
		return end.closed != nil || h.stopped != nil || h.readDeadline.passed ||
			!end.paused && (h.reset != nil || len(h.buf) > 0 || h.fin)
	}
	_ = h.from.wait(context.Background(), ready)
	switch {
	case h.stopped != nil:
		return 0, &transport.StreamError{Code: *h.stopped}
	case end.closed != nil && (closedHere(end.closed) || len(h.buf) == 0 && !h.fin):
		return 0, end.closed
	case end.closed == nil && h.readDeadline.passed:
		return 0, os.ErrDeadlineExceeded
	}
	return h.take(p)
}

// take takes the bytes that have arrived. Like QUIC, it returns the end of the stream together with the last bytes.
func (h *half) take(p []byte) (int, error) {
	n := copy(p, h.buf)
	h.buf = h.buf[n:]
	h.offset += int64(n)
	h.from.inFlight -= n
	h.from.changed.Broadcast()
	switch {
	case len(h.buf) > 0:
	case h.reset != nil:
		h.discard()
		return n, &transport.StreamError{Code: *h.reset, Remote: true}
	case h.fin:
		h.discard()
		return n, io.EOF
	}
	return n, nil
}

// closedHere reports whether this end has closed the session. Else arrived bytes can still be read.
func closedHere(err error) bool {
	closed, ok := errors.AsType[*transport.SessionError](err)
	return ok && !closed.Remote
}

func (r receiver) Offset() int64 {
	r.in.from.mu.Lock()
	defer r.in.from.mu.Unlock()
	return r.in.offset
}

func (r receiver) CancelRead(code uint64) {
	h := r.in
	h.from.mu.Lock()
	defer h.from.mu.Unlock()
	if h.consumed {
		return
	}
	h.stopped = &code
	h.discard()
	if !h.fin && h.reset == nil {
		h.cancel(&transport.StreamError{Code: code, Remote: true})
	}
}

func (r receiver) SetReadDeadline(t time.Time) error {
	r.in.from.setDeadline(&r.in.readDeadline, t)
	return nil
}

// sender is a half as its sender sees it.
type sender struct{ out *half }

// sendError returns why nothing can be sent; the lock is held.
func (h *half) sendError() error {
	switch {
	case h.reset != nil:
		return &transport.StreamError{Code: *h.reset}
	case h.from.closed != nil:
		return h.from.closed
	case h.stopped != nil:
		return &transport.StreamError{Code: *h.stopped, Remote: true}
	case h.fin:
		return io.ErrClosedPipe
	case h.writeDeadline.passed:
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (s sender) Write(p []byte) (n int, err error) {
	h := s.out
	h.from.mu.Lock()
	defer h.from.mu.Unlock()
	credit := func() int {
		return min(h.from.cfg.StreamWindow-len(h.buf), connWindow-h.from.inFlight)
	}
	for {
		if err := h.sendError(); err != nil {
			return n, err
		}
		if n == len(p) {
			return n, nil
		}
		if k := min(credit(), len(p)-n); k > 0 {
			h.buf = append(h.buf, p[n:n+k]...)
			h.from.inFlight += k
			n += k
			h.notice()
			continue
		}
		h.from.changed.Wait()
	}
}

func (s sender) Close() error {
	h := s.out
	h.from.mu.Lock()
	defer h.from.mu.Unlock()
	if err := h.sendError(); err != nil && err != os.ErrDeadlineExceeded {
		return err
	}
	h.fin = true
	h.cancel(nil)
	h.notice()
	return nil
}

func (s sender) CancelWrite(code uint64) {
	h := s.out
	h.from.mu.Lock()
	defer h.from.mu.Unlock()
	if h.reset != nil || h.fin && h.consumed {
		return
	}
	h.reset = &code
	h.cancel(&transport.StreamError{Code: code})
	if h.stopped != nil {
		h.stream.finish()
	}
	h.notice()
}

func (s sender) SetWriteDeadline(t time.Time) error {
	s.out.from.setDeadline(&s.out.writeDeadline, t)
	return nil
}

func (s sender) Context() context.Context { return s.out.ctx }

type deadline struct {
	timer  *time.Timer
	passed bool
}
