package session

import (
	"errors"
	"io"
	"os"
	"time"

	"sluice/moqt"
	"sluice/transport"
)

// Subgroup is a subgroup stream of a subscription. Its reads continue after the header.
type Subgroup struct {
	transport.ReceiveStream
	Header       moqt.SubgroupHeader
	Subscription *Subscription
}

// acceptUniStreams takes the streams that the peer opens.
func (s *Session) acceptUniStreams() {
	for {
		stream, err := s.conn.AcceptUniStream(s.ctx)
		if err != nil {
			s.failUnlessEnded(err)
			return
		}
		s.spawn(func() { s.takeUniStream(stream) })
	}
}

// takeUniStream handles a unidirectional stream (draft §3.4).
func (s *Session) takeUniStream(stream transport.ReceiveStream) {
	h := &headerReader{s: s, stream: stream}
	err := s.dispatch(h)
	_, reset := errors.AsType[*transport.StreamError](err)
	timeout := errors.Is(err, os.ErrDeadlineExceeded)
	switch {
	case err == nil || reset:
	case timeout && len(h.b) == 0: // never used
		stream.CancelRead(uint64(moqt.ResetCancelled))
	case timeout:
		s.fail(&moqt.ProtocolError{Code: moqt.SessionDataStreamTimeout, Reason: "a stream header was not completed in time"})
	default:
		s.failUnlessEnded(err)
	}
}

func (s *Session) dispatch(h *headerReader) error {
	kind, err := parseHeader(h, func(b []byte) (moqt.StreamKind, int, error) {
		kind, err := moqt.ParseStreamKind(s.version, b)
		return kind, 0, err
	})
	if err != nil {
		return err
	}
	if kind == moqt.StreamControl {
		return s.runControl(h)
	}
	if !s.holdUntilReady() {
		h.stream.CancelRead(uint64(moqt.ResetExcessiveLoad))
		return nil
	}
	switch kind {
	case moqt.StreamSubgroup:
		return s.takeSubgroup(h)
	case moqt.StreamFetch:
		return s.takeFetchStream(h)
	}
	if err := h.clearDeadline(); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, h.stream) // padding (draft §11.5.1)
	return err
}

// holdUntilReady waits until the peer's SETUP has arrived. It reports false if too much waits for it already.
func (s *Session) holdUntilReady() bool {
	if s.isReady() {
		return true
	}
	if !s.held.tryAcquire() {
		return false
	}
	defer s.held.release()
	return s.awaitReady(s.ctx) == nil
}

// takeSubgroup hands a subgroup stream to the receiver of its subscription.
func (s *Session) takeSubgroup(h *headerReader) error {
	header, err := parseHeader(h, func(b []byte) (moqt.SubgroupHeader, int, error) {
		return moqt.ParseSubgroupHeader(s.version, b)
	})
	if err != nil {
		return err
	}
	if err := h.clearDeadline(); err != nil {
		return err
	}
	// Whatever happens, the stream must not keep its flow control credit. After its end this does nothing.
	defer h.stream.CancelRead(uint64(moqt.ResetCancelled))
	sub := s.awaitSubscription(header.TrackAlias)
	if sub == nil {
		s.log.Debug("subgroup abandoned", "stream", h.stream.ID(), "alias", header.TrackAlias)
		return nil
	}
	g := &Subgroup{ReceiveStream: h.stream, Header: header, Subscription: sub}
	if sub.beginStream(g) {
		if sub.receiver != nil {
			sub.receiver.HandleSubgroup(g)
		}
		sub.endStream(g)
	}
	return nil
}

// awaitSubscription returns the subscription that an alias belongs to, and gives the message that says so a short time
// to arrive and to be accepted (draft §11.4.2). The stream waits in the transport, within its flow control window.
func (s *Session) awaitSubscription(alias uint64) *Subscription {
	find := func() (*Subscription, <-chan struct{}) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.findSubscription(alias)
	}
	sub, wait := find()
	if wait == nil {
		return sub
	}
	if !s.held.tryAcquire() {
		return nil
	}
	defer s.held.release()
	timer := time.NewTimer(s.cfg.Hold)
	defer timer.Stop()
	for wait != nil {
		select {
		case <-wait:
		case <-timer.C:
			return nil
		case <-s.ctx.Done():
			return nil
		}
		sub, wait = find()
	}
	return sub
}

// findSubscription returns the subscription that an alias belongs to, or nil if its objects are not wanted. If that is
// not known yet, it returns what to wait for. It is called with mu held.
func (s *Session) findSubscription(alias uint64) (sub *Subscription, wait <-chan struct{}) {
	sub, retired := s.aliases.lookup(alias)
	switch {
	case sub == nil && retired:
		return nil, nil
	case sub == nil:
		return nil, s.changed
	}
	select {
	case <-sub.accept:
		return sub, nil
	default:
		return nil, s.changed
	}
}

// headerReader reads the start of a stream, byte by byte, so that nothing of what follows is taken.
type headerReader struct {
	s      *Session
	stream transport.ReceiveStream
	b      []byte
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

func (h *headerReader) clearDeadline() error { return h.stream.SetReadDeadline(time.Time{}) }

// parseHeader reads until parse is satisfied.
func parseHeader[T any](h *headerReader, parse func([]byte) (T, int, error)) (T, error) {
	if len(h.b) == 0 {
		if err := h.stream.SetReadDeadline(time.Now().Add(h.s.cfg.Header)); err != nil {
			return *new(T), err
		}
	}
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
