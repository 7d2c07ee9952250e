package natsengine

import (
	"fmt"
	"sync"
)

const (
	// maxOutgoing is how many bytes wait for a connection that is slow. The longest snapshot has 16 MiB.
	maxOutgoing = 32 << 20
	// maxIncoming is how many bytes wait for the node: all the routes that its table holds.
	maxIncoming = 128 << 20
	// messageCost is how many bytes a message takes besides its subject and data.
	messageCost = 64
)

var errSlow = fmt.Errorf("the connection with NATS is slow: %d MiB wait for it", maxOutgoing>>20)

// message is a message that waits.
type message struct {
	subject string
	data    []byte
}

func (m *message) size() int { return messageCost + len(m.subject) + len(m.data) }

// queue holds messages, so that nobody waits for whoever is to have them.
type queue struct {
	limit    int // of bytes
	mu       sync.Mutex
	changed  sync.Cond
	messages []message
	bytes    int // of the messages
	closed   bool
}

func newQueue(limit int) *queue {
	q := &queue{limit: limit}
	q.changed.L = &q.mu
	return q
}

// push adds a message. After close it does nothing.
func (q *queue) push(m message) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return nil
	case q.bytes+m.size() > q.limit:
		return errSlow
	}
	q.messages = append(q.messages, m)
	q.bytes += m.size()
	q.changed.Signal()
	return nil
}

// pop waits for a message, and takes it. It returns false when the queue is closed and empty.
func (q *queue) pop() (message, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.messages) == 0 && !q.closed {
		q.changed.Wait()
	}
	if len(q.messages) == 0 {
		return message{}, false
	}
	m := q.messages[0]
	q.messages[0] = message{}
	q.messages = q.messages[1:]
	q.bytes -= m.size()
	return m, true
}

// close has pop return false, rather than wait, when the queue is empty.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
}
