package session

import (
	"context"
	"io"

	"sluice/moqt"
	"sluice/transport"
)

// maxSharedInbox is how many messages of a request may wait to be processed. Beyond it, the control stream waits: it
// belongs to the peer that sends so many.
const maxSharedInbox = 2 * maxUnansweredUpdates

// sharedStream is the part of a control stream that belongs to one request. It takes the place of a stream in Request:
// it is its requestStream, messageSender and messageSource.
type sharedStream struct {
	c      *sharedControl
	kind   moqt.MessageType
	remote bool            // the request is one of the peer
	ctx    context.Context // done when the request has ended
	cancel context.CancelFunc
	read   chan struct{} // closed when the end of the peer's messages has been processed

	// Guarded by c.mu.
	id       uint64
	entered  bool // id is valid
	answered bool
	quiet    bool // the request has ended in a way that both ends know: no message has to say so
	closed   bool // by this end: nothing may be sent
	stopped  error
	inbox    []sharedMessage
	updates  []uint64      // of this end, without a response
	changed  chan struct{} // closed, and replaced, when inbox or stopped change
}

// sharedMessage is a message of the peer, or how its end of the stream ends.
type sharedMessage struct {
	m   moqt.Message
	err error
}

// ID implements requestStream.
func (t *sharedStream) ID() int64 { return -1 }

// Context implements requestStream.
func (t *sharedStream) Context() context.Context { return t.ctx }

// Write implements requestStream: nothing is written here.
func (t *sharedStream) Write([]byte) (int, error) { return 0, nil }

// CancelRead implements requestStream.
func (t *sharedStream) CancelRead(code uint64) { t.stop(&transport.StreamError{Code: code}) }

func (t *sharedStream) stop(err error) {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	t.stopLocked(err)
}

func (t *sharedStream) stopLocked(err error) {
	if t.stopped == nil {
		t.stopped = err
		t.wakeLocked()
	}
}

func (t *sharedStream) wakeLocked() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// next implements messageSource.
func (t *sharedStream) next() (moqt.Message, error) {
	for {
		next, wait := t.take()
		if wait == nil {
			return next.m, next.err
		}
		select {
		case <-wait:
		case <-t.c.s.ctx.Done():
			return nil, context.Cause(t.c.s.ctx)
		}
	}
}

// take returns the next message, or a channel that is closed when there may be one.
func (t *sharedStream) take() (next sharedMessage, wait <-chan struct{}) {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	switch {
	case t.stopped != nil:
		return sharedMessage{err: t.stopped}, nil
	case len(t.inbox) == 0:
		return next, t.changed
	}
	next, t.inbox = t.inbox[0], t.inbox[1:]
	t.wakeLocked()
	return next, nil
}

// push adds a message of the peer, or the end of its messages. It waits while too many messages are there.
func (t *sharedStream) push(m moqt.Message, err error) error {
	for {
		t.c.mu.Lock()
		if t.stopped != nil {
			t.c.mu.Unlock()
			return nil // nobody reads it
		}
		if len(t.inbox) < maxSharedInbox || m == nil {
			t.inbox = append(t.inbox, sharedMessage{m, err})
			t.wakeLocked()
			t.c.mu.Unlock()
			return nil
		}
		wait := t.changed
		t.c.mu.Unlock()
		select {
		case <-wait:
		case <-t.c.s.ctx.Done():
			return context.Cause(t.c.s.ctx)
		}
	}
}

// end adds the end of the peer's messages, and waits until it has been processed: the next message may be a request
// that has to be refused while this one is open. The stream has been forgotten before, so that no message follows.
func (t *sharedStream) end(err error) error {
	if err := t.push(nil, err); err != nil {
		return err
	}
	select {
	case <-t.read:
		return nil
	case <-t.c.s.ctx.Done():
		return context.Cause(t.c.s.ctx)
	}
}

// receive adds a response or PUBLISH_DONE, and the end of the peer's messages if none can follow.
func (t *sharedStream) receive(m moqt.Message, toUpdate bool) error {
	last := false
	switch m.(type) {
	case *moqt.PublishDone:
		last = true
	case *moqt.RequestError:
		last = !toUpdate
	case *moqt.RequestOK:
		last = !toUpdate && t.kind == moqt.MessageTrackStatus
	}
	t.c.mu.Lock()
	t.answered = t.answered || !toUpdate
	if last {
		t.quiet = true
		t.c.forgetLocked(t)
	}
	t.c.mu.Unlock()
	err := t.push(m, nil)
	if last && err == nil {
		err = t.end(io.EOF)
	}
	return err
}

// send implements messageSender.
func (t *sharedStream) send(ref moqt.Reference, m moqt.Message, last bool) error {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	if t.closed {
		return ErrFinished
	}
	if err := t.c.s.control.out.send(ref, m, false); err != nil {
		return err
	}
	update, isUpdate := m.(*moqt.RequestUpdate)
	switch {
	case isUpdate:
		t.updates = append(t.updates, update.RequestID)
		t.c.updates[update.RequestID] = t
	case !t.entered:
		t.id, t.entered = ref.RequestID, true
		t.c.streams[t.id] = t
	case ref.RequestID == t.id:
		t.answered = true
	}
	if last {
		t.quiet = true
		t.closeLocked()
	}
	return nil
}

// closeLocked ends the request for this end. c.mu is held.
func (t *sharedStream) closeLocked() {
	t.closed = true
	t.c.forgetLocked(t)
	t.stopLocked(io.EOF)
}

// flush implements messageSender.
func (t *sharedStream) flush(ctx context.Context) error { return t.c.s.control.out.flush(ctx) }

// finish implements messageSender. A FETCH goes on: it ends with its data. So does a TRACK_STATUS, with its response.
func (t *sharedStream) finish() {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	switch t.kind {
	case moqt.MessageTrackStatus:
		return
	case moqt.MessageFetch:
		t.quiet = t.quiet || t.answered // it is complete
	}
	t.endLocked(moqt.ResetCancelled)
}

// reset implements messageSender.
func (t *sharedStream) reset(code moqt.StreamResetCode) {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	t.endLocked(code)
}

// endLocked ends the request, and tells the peer if it does not know. c.mu is held.
func (t *sharedStream) endLocked(code moqt.StreamResetCode) {
	if t.closed {
		return
	}
	if m := t.lastMessage(code); m != nil && t.entered && !t.quiet {
		ref := moqt.Reference{RequestID: t.id}
		_ = t.c.s.control.out.send(ref, m, false) // fails only if the session has ended
	}
	t.closeLocked()
}

// lastMessage returns the message that ends the request, or nil if there is none.
func (t *sharedStream) lastMessage(code moqt.StreamResetCode) moqt.Message {
	switch kind := t.kind; {
	case t.remote && !t.answered:
		return refuse(refusalOf(code), "the request was cancelled")
	case kind == moqt.MessageSubscribe && !t.remote, kind == moqt.MessagePublish && t.remote:
		return &moqt.Unsubscribe{}
	case kind == moqt.MessageSubscribe, kind == moqt.MessagePublish:
		return &moqt.PublishDone{Status: doneCodeOf(code), StreamCount: moqt.UnknownStreamCount}
	case kind == moqt.MessageFetch && !t.remote:
		return &moqt.FetchCancel{}
	case kind == moqt.MessagePublishNamespace && !t.remote:
		return &moqt.NamespaceWithdrawn{}
	case kind == moqt.MessagePublishNamespace:
		return &moqt.NamespaceRevoked{Code: refusalOf(code)}
	}
	return nil
}

// ends reports whether m is the message with which the peer ends this request.
func (t *sharedStream) ends(m moqt.Message) bool {
	switch m.(type) {
	case *moqt.Unsubscribe:
		return t.kind == moqt.MessageSubscribe && t.remote || t.kind == moqt.MessagePublish && !t.remote
	case *moqt.FetchCancel:
		return t.kind == moqt.MessageFetch && t.remote
	case *moqt.NamespaceWithdrawn:
		return t.kind == moqt.MessagePublishNamespace && t.remote
	}
	return t.kind == moqt.MessagePublishNamespace && !t.remote
}

// doneCodeOf returns the PUBLISH_DONE code for a subscription whose stream another version would reset.
func doneCodeOf(code moqt.StreamResetCode) moqt.PublishDoneCode {
	switch code {
	case moqt.ResetGoingAway:
		return moqt.DoneGoingAway
	case moqt.ResetTooFarBehind:
		return moqt.DoneTooFarBehind
	case moqt.ResetExcessiveLoad:
		return moqt.DoneExcessiveLoad
	case moqt.ResetMalformedTrack:
		return moqt.DoneMalformedTrack
	case moqt.ResetExpiredAuthToken:
		return moqt.DoneUnauthorized
	}
	return moqt.DoneInternalError
}

// refusalOf is the same for a request without a response.
func refusalOf(code moqt.StreamResetCode) moqt.RequestErrorCode {
	switch code {
	case moqt.ResetGoingAway:
		return moqt.RequestGoingAway
	case moqt.ResetExcessiveLoad:
		return moqt.RequestExcessiveLoad
	case moqt.ResetMalformedTrack:
		return moqt.RequestMalformedTrack
	case moqt.ResetExpiredAuthToken:
		return moqt.RequestExpiredAuthToken
	}
	return moqt.RequestInternalError
}
