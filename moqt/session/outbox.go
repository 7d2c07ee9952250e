package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"sluice/moqt"
	"sluice/transport"
)

// errStalled says that the peer does not read what it was sent.
var errStalled = errors.New("the peer does not read its messages")

// outbox sends the messages of one stream. They queue up while the peer does not read, so that sending blocks nobody:
// neither other streams nor the sender. A goroutine exists while something is queued.
type outbox struct {
	s      *Session
	failed func(error) // called once, when the stream cannot take what is queued

	mu      sync.Mutex
	stream  transport.SendStream // nil while it is not open: messages queue up
	queue   []byte
	sending chan struct{} // closed when all is sent; nil then
	fin     bool          // nothing may follow what is queued
	dead    bool
}

// send queues a message. It fails if the message cannot be encoded, or comes after the last one.
func (o *outbox) send(m moqt.Message) error { return o.enqueue(m, false) }

// sendLast queues a message and a FIN.
func (o *outbox) sendLast(m moqt.Message) error { return o.enqueue(m, true) }

func (o *outbox) enqueue(m moqt.Message, last bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fin {
		return ErrFinished
	}
	queue, err := moqt.AppendMessage(o.queue, o.s.version, m)
	if err != nil {
		return err
	}
	o.s.log.Debug("send", "message", m.Type())
	o.queue, o.fin = queue, last
	if len(o.queue) > o.s.cfg.MaxSendQueue {
		o.s.spawn(func() { o.fail(errStalled) }) // not here: the caller may hold the session's mu
		return errStalled
	}
	o.start()
	return nil
}

// open starts sending on a stream.
func (o *outbox) open(stream transport.SendStream) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stream = stream
	o.start()
}

// finish queues a FIN.
func (o *outbox) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.fin {
		o.fin = true
		o.start()
	}
}

// reset abandons what is queued, and the stream.
func (o *outbox) reset(code moqt.StreamResetCode) {
	o.mu.Lock()
	o.dead, o.fin, o.queue = true, true, nil
	o.mu.Unlock()
	o.stream.CancelWrite(uint64(code))
}

func (o *outbox) start() {
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
				_ = o.stream.Close() // fails only where nobody waits for the FIN: after a reset
			}
			return
		}
		if err := o.write(b); err != nil {
			o.fail(err)
			return
		}
	}
}

// take returns what is queued. If that is nothing, the sender has to stop.
func (o *outbox) take() (b []byte, fin bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b, o.queue = o.queue, nil
	if len(b) == 0 {
		o.stop()
	}
	return b, o.fin
}

// stop lets those proceed that wait for the queue to be empty.
func (o *outbox) stop() {
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
	if err := o.stream.SetWriteDeadline(time.Now().Add(o.s.cfg.Timeouts.Write)); err != nil {
		return err
	}
	_, err := o.stream.Write(b)
	return err
}

func (o *outbox) fail(err error) {
	o.mu.Lock()
	first := !o.dead
	o.dead, o.fin, o.queue = true, true, nil
	o.stop()
	o.mu.Unlock()
	if first {
		o.failed(err)
	}
}
