package fastpath

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"
)

// queue is a BPF ring buffer: of packets that the programs have taken, or of jobs. It is read without system calls.
// Queues have no cache line in common, because those who empty them run on different processors.
type queue struct {
	ring *ebpf.Map
	size uint64 // of the ring in bytes, a power of two

	mu                 sync.Mutex // guards all below; held while packets are handed over
	control, data      []byte     // mapped; nil: closed
	consumer, producer *uint64    // positions, which only grow
	_                  cpu.CacheLinePad
}

// TakenQueue is a queue of packets that the programs have taken: each is a bpf.TakenPacket and the plaintext behind it.
type TakenQueue interface {
	// HandOver calls f for each packet, or for the first ones. The packet is valid during the call.
	HandOver(most int, f func(packet []byte))
	// Close frees the memory. The programs may still put something into the queue.
	Close() error
}

// The header of a record (BPF_RINGBUF_BUSY_BIT and so on in linux/bpf.h).
const (
	recordHeader  = 8
	recordBusy    = 1 << 31
	recordDiscard = 1 << 30
)

// maxQueues is how many queues there may be: as many as the media sender has shards at most. Each takes 128 KiB.
const maxQueues = 64

// numQueues returns how many queues there are: one for each processor, and so for each shard of the media sender.
func numQueues() int { return min(runtime.GOMAXPROCS(0), maxQueues) }

// makeQueues makes the queues of packets that are taken.
func (k *kernel) makeQueues() error {
	for i := range numQueues() {
		q, err := newQueue(k.queue)
		if err != nil {
			return fmt.Errorf("fast path: make a queue: %w", err)
		}
		k.queues = append(k.queues, q)
		if err := k.ingress.TakenPackets.Put(uint32(i), q.ring); err != nil {
			return fmt.Errorf("fast path: make a queue: %w", err)
		}
	}
	return nil
}

func newQueue(spec *ebpf.MapSpec) (q *queue, err error) {
	q = &queue{size: uint64(spec.MaxEntries)}
	if q.ring, err = ebpf.NewMap(spec); err != nil {
		return nil, err
	}
	page, fd := unix.Getpagesize(), q.ring.FD()
	// First a page with the consumer's position; then, only to be read, a page with the producer's, and the ring twice
	// in a row, so that no record is in two pieces.
	if q.control, err = unix.Mmap(fd, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
		q.data, err = unix.Mmap(fd, int64(page), page+2*int(q.size), unix.PROT_READ, unix.MAP_SHARED)
	}
	if err != nil {
		return nil, errors.Join(err, q.Close())
	}
	q.consumer = (*uint64)(unsafe.Pointer(unsafe.SliceData(q.control)))
	q.producer = (*uint64)(unsafe.Pointer(unsafe.SliceData(q.data)))
	q.data = q.data[page:]
	return q, nil
}

// HandOver implements [TakenQueue].
func (q *queue) HandOver(most int, f func(record []byte)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.control == nil {
		return
	}
	for at := *q.consumer; most > 0 && at < atomic.LoadUint64(q.producer); {
		b := q.data[at&(q.size-1):]
		header := atomic.LoadUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(b))))
		if header&recordBusy != 0 {
			return // it is being written
		}
		n := uint64(header &^ recordDiscard)
		if header&recordDiscard == 0 {
			f(b[recordHeader : recordHeader+n])
			most--
		}
		at += (recordHeader + n + 7) &^ 7
		atomic.StoreUint64(q.consumer, at)
	}
}

// Close implements [TakenQueue].
func (q *queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var errs []error
	if q.control != nil {
		errs = append(errs, unix.Munmap(q.control))
	}
	if page := unix.Getpagesize(); q.data != nil {
		whole := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(q.data)), -page)), page+len(q.data))
		errs = append(errs, unix.Munmap(whole))
	}
	q.control, q.data = nil, nil
	return errors.Join(append(errs, q.ring.Close())...)
}
