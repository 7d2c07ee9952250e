package programs

import (
	"sync"
	"unsafe"

	"sluice/fastpath/bpf"
)

const takenShare = 64 // packets of one connection that wait in a queue

// takenQueue is a queue of packets that were taken. It implements [fastpath.TakenQueue].
type takenQueue struct {
	handing sync.Mutex // held while packets are handed over

	mu      sync.Mutex // guards all below
	packets [][]byte
	closed  bool
}

func newTakenQueue() *takenQueue { return new(takenQueue) }

func (q *takenQueue) put(t bpf.TakenPacket, payload []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	// Words, because user space reads the head as a struct.
	words := make([]uint64, (int(unsafe.Sizeof(t))+len(payload)+7)/8)
	*(*bpf.TakenPacket)(unsafe.Pointer(unsafe.SliceData(words))) = t
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 8*len(words))
	copy(b[unsafe.Sizeof(t):], payload)
	q.packets = append(q.packets, b[:int(unsafe.Sizeof(t))+len(payload)])
}

// HandOver implements [fastpath.TakenQueue].
func (q *takenQueue) HandOver(most int, f func(packet []byte)) {
	q.handing.Lock()
	defer q.handing.Unlock()
	for range most {
		p, ok := q.next()
		if !ok {
			return
		}
		f(p)
	}
}

func (q *takenQueue) next() (p []byte, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.packets) == 0 {
		return nil, false
	}
	p, q.packets = q.packets[0], q.packets[1:]
	return p, true
}

// Close implements [fastpath.TakenQueue].
func (q *takenQueue) Close() error {
	q.handing.Lock()
	defer q.handing.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.packets, q.closed = nil, true
	return nil
}
