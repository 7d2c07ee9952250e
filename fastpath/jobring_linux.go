package fastpath

import (
	"errors"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// jobRing is a BPF ring buffer of jobs. It is read without system calls, by one goroutine at a time.
type jobRing struct {
	ring *ebpf.Map
	size uint64 // of the ring in bytes, a power of two

	control, data      []byte  // mapped
	consumer, producer *uint64 // positions, which only grow
}

// The header of a record (BPF_RINGBUF_BUSY_BIT and so on in linux/bpf.h).
const (
	recordHeader  = 8
	recordBusy    = 1 << 31
	recordDiscard = 1 << 30
)

func newJobRing(spec *ebpf.MapSpec) (r *jobRing, err error) {
	r = &jobRing{size: uint64(spec.MaxEntries)}
	if r.ring, err = ebpf.NewMap(spec); err != nil {
		return nil, err
	}
	page, fd := unix.Getpagesize(), r.ring.FD()
	// First a page with the consumer's position; then, only to be read, a page with the producer's, and the ring twice
	// in a row, so that no record is in two pieces.
	if r.control, err = unix.Mmap(fd, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
		r.data, err = unix.Mmap(fd, int64(page), page+2*int(r.size), unix.PROT_READ, unix.MAP_SHARED)
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	r.consumer = (*uint64)(unsafe.Pointer(unsafe.SliceData(r.control)))
	r.producer = (*uint64)(unsafe.Pointer(unsafe.SliceData(r.data)))
	return r, nil
}

// take takes jobs out of the ring, and calls f for each. A job is valid during the call.
func (r *jobRing) take(most int, f func(job []byte)) {
	records := r.data[unix.Getpagesize():]
	for at := *r.consumer; most > 0 && at < atomic.LoadUint64(r.producer); {
		b := records[at&(r.size-1):]
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
		atomic.StoreUint64(r.consumer, at)
	}
}

// close frees the memory. The programs may still put something into the ring.
func (r *jobRing) close() error {
	var errs []error
	for _, mapped := range [][]byte{r.control, r.data} {
		if mapped != nil {
			errs = append(errs, unix.Munmap(mapped))
		}
	}
	return errors.Join(append(errs, r.ring.Close())...)
}
