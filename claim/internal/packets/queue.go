package packets

// emptier is who empties the queue.
type emptier uint8

const (
	nobody emptier = iota
	turnEmpties
	quicGoEmpties
	reclaimerEmpties
)

// queue is the taken ACKs.
type queue struct {
	len     uint8
	entries [room]taken
	lock    emptier
	handled bool // the first entry, by who has the lock
}

// taken is a taken ACK.
type taken struct {
	ack     set
	handled bool
	before  set // it was here before these began, see emptier
}

func (q *queue) put(ack set) {
	q.entries[q.len] = taken{ack: ack}
	q.len++
}

// await notes the ACKs in the queue when an actor begins that may consider packets lost.
func (q *queue) await(by emptier) {
	for i := range q.len {
		q.entries[i].before.add(uint8(by))
	}
}

// missed reports whether an ACK for a packet was in the queue then, and still is.
func (q *queue) missed(by emptier, number uint8) bool {
	for _, e := range q.entries[:q.len] {
		if e.before.has(uint8(by)) && !e.handled && e.ack.has(number) {
			return true
		}
	}
	return false
}

func (q *queue) pop() {
	if q.len > 0 {
		q.len--
		q.entries[0], q.entries[1] = q.entries[1], taken{}
	}
}

// handOver is one step of emptying the queue, as fastpath/queue_linux.go: HandOver does. It reports whether the queue
// is empty. An ACK is handled first, and leaves the queue by a second step.
func (m model) handOver(s *state, by emptier) (empty bool) {
	q := &s.queue
	switch {
	case q.lock != by && q.len == 0:
		return true
	case q.lock != by:
		q.lock, q.handled = by, false
	case q.len == 0:
		q.lock = nobody
		return true
	case !q.handled:
		q.handled = true
		m.handle(s, &q.entries[0])
	default:
		q.handled = false
		q.pop()
	}
	return false
}

// mayHandOver reports whether someone may make such a step.
func (m model) mayHandOver(s *state, by emptier) bool {
	return s.queue.lock == nobody || s.queue.lock == by || !m.keeps("one at a time empties the queue")
}

// handle handles a taken ACK. It may be a verdict on a packet that a later one in the queue acknowledges: that is as if
// the network had brought the later one too late.
func (m model) handle(s *state, e *taken) {
	switch {
	case e.handled:
		s.broken = handledTwice
	case s.end.at == given:
		s.broken = reused
	}
	if e.handled = true; s.end.at == lives {
		m.acknowledge(s, e.ack, nobody)
	}
}
