package session

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"sluice/moqt"
	"sluice/moqt/qlog"
	"sluice/transport"
)

// inbox reads the messages of one stream. A message must arrive within a timeout of its first byte.
type inbox struct {
	stream transport.ReceiveStream
	reader *moqt.Reader
	begun  bool // the deadline of the message is set
}

// newInbox returns the inbox of a stream. The bytes in already were read from it before.
func newInbox(s *Session, stream transport.ReceiveStream, already ...byte) *inbox {
	in := &inbox{stream: stream}
	in.reader = moqt.NewReader(io.MultiReader(bytes.NewReader(already), in), s.version)
	in.reader.OldParameters = func() bool { return s.Tolerates(WritesOldParameters) }
	return in
}

// first waits for the message that opens a request stream. A peer opens a stream when it has something to send, so the
// timeout starts at once. If nothing arrives, it fails with [os.ErrDeadlineExceeded].
func (in *inbox) first() (moqt.Message, error) {
	in.begin()
	return in.next()
}

// next waits for the next message.
func (in *inbox) next() (moqt.Message, error) {
	in.begun = false
	if in.reader.Buffered() > 0 {
		in.begin()
	}
	m, err := in.reader.Read()
	if errors.Is(err, os.ErrDeadlineExceeded) && in.reader.Buffered() > 0 {
		return nil, closes(moqt.SessionControlMessageTimeout, "a control message was not completed in time")
	}
	if err == nil {
		err = in.stream.SetReadDeadline(time.Time{})
	}
	return m, err
}

// Read implements io.Reader for the moqt.Reader.
func (in *inbox) Read(p []byte) (int, error) {
	n, err := in.stream.Read(p)
	if n > 0 && !in.begun {
		in.begin()
	}
	return n, err
}

func (in *inbox) begin() {
	in.begun = true
	_ = in.stream.SetReadDeadline(time.Now().Add(messageTimeout)) // if this fails, reading fails too
}

// messageSource is where the messages of the peer for a request come from.
type messageSource interface {
	// next waits for the next message. Its errors are final; io.EOF says that no message can follow.
	next() (moqt.Message, error)
}

// messageSender sends the messages of this end for a request.
type messageSender interface {
	send(ref moqt.Reference, m moqt.Message, last bool) error
	// finish says that this end has nothing more to send.
	finish()
	// reset discards messages that are not sent, and ends the request.
	reset(moqt.StreamResetCode)
	flush(context.Context) error
}

// errStalled reports that the peer does not read its messages.
var errStalled = errors.New("the peer does not read its messages")

// outbox sends the messages of one stream. Messages wait in a queue while the peer does not read, so that sending never
// blocks. A goroutine exists while something is queued.
type outbox struct {
	s      *Session
	failed func(error) // called once, when the stream fails, or the queue is full

	mu      sync.Mutex
	stream  transport.SendStream // nil while it is not open: messages queue up
	queue   []byte
	early   []sentMessage // before the stream was open: for its qlog, if there is one
	sending chan struct{} // closed when the queue has been sent; nil while nothing is queued
	fin     bool          // no message may follow
	dead    bool          // the stream was reset, or failed
}

// send queues a message, and a FIN if it is the last one. It fails if the message cannot be encoded, or follows the
// last one.
func (o *outbox) send(ref moqt.Reference, m moqt.Message, last bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fin {
		return ErrFinished
	}
	queue, err := moqt.AppendMessageTo(o.queue, o.s.version, ref, m)
	if err != nil {
		return err
	}
	o.s.log.Debug("send", "message", m.Type())
	o.recordLocked(ref, m)
	o.queue, o.fin = queue, last
	if len(o.queue) > o.s.cfg.MaxSendQueue {
		o.s.spawn(func() { o.fail(errStalled) }) // in another goroutine: the caller may hold the session's mu
		return errStalled
	}
	o.startLocked()
	return nil
}

// sentMessage is a message, and the request that it refers to.
type sentMessage struct {
	ref moqt.Reference
	m   moqt.Message
}

// recordLocked writes a message to the qlog, which has the stream's ID. o.mu is held.
func (o *outbox) recordLocked(ref moqt.Reference, m moqt.Message) {
	switch {
	case o.s.qlog == nil:
	case o.stream == nil:
		o.early = append(o.early, sentMessage{ref, m})
	default:
		o.s.qlog.Message(qlog.Created, o.stream.ID(), ref.RequestID, m)
	}
}

// open starts sending on a stream.
func (o *outbox) open(stream transport.SendStream) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stream = stream
	for _, e := range o.early {
		o.recordLocked(e.ref, e.m)
	}
	o.early = nil
	o.startLocked()
}

// finish queues a FIN.
func (o *outbox) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.fin {
		o.fin = true
		o.startLocked()
	}
}

// reset discards the queue, and resets the stream.
func (o *outbox) reset(code moqt.StreamResetCode) {
	o.mu.Lock()
	o.dead, o.fin, o.queue = true, true, nil
	o.mu.Unlock()
	o.stream.CancelWrite(uint64(code))
}

func (o *outbox) startLocked() {
	if o.sending == nil && !o.dead && o.stream != nil && o.s.spawn(o.run) {
		o.sending = make(chan struct{})
	}
}

// run writes until the queue is empty.
func (o *outbox) run() {
	for {
		b, fin := o.take()
		if len(b) == 0 {
			if fin {
				_ = o.stream.Close() // fails only after a reset
			}
			return
		}
		if err := o.write(b); err != nil {
			o.fail(err)
			return
		}
	}
}

// take returns the queued bytes, and whether a FIN follows. If nothing is queued, run must return.
func (o *outbox) take() (b []byte, fin bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b, o.queue = o.queue, nil
	if len(b) == 0 {
		o.stopLocked()
	}
	return b, o.fin && !o.dead
}

// stopLocked releases everything that waits in flush.
func (o *outbox) stopLocked() {
	if o.sending != nil {
		close(o.sending)
		o.sending = nil
	}
}

// flush waits until the transport has taken everything that was queued before.
func (o *outbox) flush(ctx context.Context) error {
	o.mu.Lock()
	sending := o.sending
	o.mu.Unlock()
	if sending == nil {
		return nil
	}
	select {
	case <-sending:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (o *outbox) write(b []byte) error {
	if err := o.stream.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := o.stream.Write(b)
	return err
}

func (o *outbox) fail(err error) {
	o.mu.Lock()
	first := !o.dead
	o.dead, o.fin, o.queue = true, true, nil
	o.stopLocked()
	o.mu.Unlock()
	if first {
		o.failed(err)
	}
}
