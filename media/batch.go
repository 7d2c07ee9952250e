package media

import (
	"sync/atomic"
)

// Limits of a batch.
const (
	maxMTU      = 1500
	batchBytes  = 256 << 10
	maxMessages = 256
	// maxSegments is UDP_MAX_SEGMENTS of the kernels before 6.9.
	maxSegments = 64
	// maxTrain is less than the largest UDP payload.
	maxTrain = 65000
)

// message is one or several packets for one destination: a train, in which all but the last have the same size.
type message struct {
	route   *route
	data    []byte
	segment int // size of the packets; the last may be smaller
	count   int
}

// batch collects packets of several senders for few system calls.
type batch struct {
	sock     socket
	buf      []byte
	used     int
	messages []message
}

func newBatch(sock socket) *batch {
	return &batch{sock: sock, buf: make([]byte, batchBytes), messages: make([]message, 0, maxMessages)}
}

// full says if the batch must be flushed before the next packet.
func (b *batch) full() bool { return len(b.messages) == maxMessages || len(b.buf)-b.used < maxMTU }

// next returns room for a packet of up to maxMTU bytes.
func (b *batch) next() []byte { return b.buf[b.used:b.used:len(b.buf)] }

// add adds the packet of n bytes that was written to what next returned.
func (b *batch) add(r *route, n int) {
	p := b.buf[b.used : b.used+n]
	b.used += n
	if k := len(b.messages); k > 0 && r.trains && b.messages[k-1].takes(r, n) {
		m := &b.messages[k-1]
		m.data = m.data[:len(m.data)+n]
		m.count++
		return
	}
	b.messages = append(b.messages, message{route: r, data: p, segment: n, count: 1})
}

// takes says if a packet of n bytes, which lies behind the others in memory, can be part of the train.
func (m *message) takes(r *route, n int) bool {
	return m.route == r && n <= m.segment && len(m.data)%m.segment == 0 && m.count < maxSegments && len(m.data)+n <= maxTrain
}

// flush sends everything.
func (b *batch) flush() {
	if len(b.messages) > 0 {
		b.sock.write(b.messages)
	}
	clear(b.messages)
	b.messages, b.used = b.messages[:0], 0
}

// socket is where batches go. What cannot be sent is lost, as packets are; the reason is counted.
type socket interface {
	// trains says if messages may have several packets.
	trains() bool
	write([]message)
	// name returns an address in the form that write likes best.
	name(*route) []byte
}

// writeStats counts what the sockets of a loop do.
type writeStats struct {
	packets, messages, calls atomic.Uint64
	errors                   [numReasons]atomic.Uint64
	gso                      atomic.Bool
}

func (w *writeStats) snapshot() LoopStats {
	s := LoopStats{
		Packets: w.packets.Load(), Messages: w.messages.Load(), Calls: w.calls.Load(),
		Errors: make(map[Reason]uint64), GSO: w.gso.Load(),
	}
	for r := range w.errors {
		if n := w.errors[r].Load(); n > 0 {
			s.Errors[Reason(r)] = n
		}
	}
	return s
}
