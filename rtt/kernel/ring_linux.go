package kernel

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// A Ring reads the ring buffer of events. It is for one goroutine.
//
// Unlike the reader of cilium/ebpf it waits as connections do, in the poller of the Go runtime, so it keeps no thread,
// and it has only the part of the buffer in memory that it reads: the pages of a mapping of BPF memory count as the
// process's from the start, and the buffer is mapped twice, one behind the other.
type Ring struct {
	file     *os.File // of the map
	fd       int      // of file
	conn     syscall.RawConn
	size     uint64 // of the buffer, a power of two
	page     int
	consumer []byte // the page with the number of bytes that were read
	producer []byte // the page with the number of bytes that were written
	window   []byte // a part of the buffer
	first    uint64 // where in the buffer the window begins
}

const (
	// windowSize has room for a thousand events. With a longer window, no less time is spent.
	windowSize = 128 << 10
	// ringHeader is the length of the header of a record (struct bpf_ringbuf_hdr). The bits are of its first word.
	ringHeader    = 8
	ringBusy      = 1 << 31
	ringDiscarded = 1 << 30
	// busyTurns is how often a busy record is looked at before the reader sleeps, for a busyPause at a time.
	busyTurns = 100
	busyPause = time.Millisecond
)

// NewRing returns a reader of a ring buffer.
func NewRing(m *ebpf.Map) (*Ring, error) {
	r := &Ring{size: uint64(m.MaxEntries()), page: os.Getpagesize()}
	if err := r.open(m.FD()); err != nil {
		return nil, errors.Join(fmt.Errorf("open the event ring: %w", err), r.Close())
	}
	return r, nil
}

func (r *Ring) open(fd int) (err error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(own, true); err != nil { // the runtime polls no other descriptors
		return errors.Join(err, unix.Close(own))
	}
	r.file, r.fd = os.NewFile(uintptr(own), "events"), own
	if r.conn, err = r.file.SyscallConn(); err != nil {
		return err
	}
	if r.consumer, err = unix.Mmap(own, 0, r.page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return err
	}
	r.producer, err = unix.Mmap(own, int64(r.page), r.page, unix.PROT_READ, unix.MAP_SHARED)
	return err
}

// Close ends a Wait, and frees the reader's resources.
func (r *Ring) Close() error {
	var errs []error
	if r.file != nil {
		errs = append(errs, r.file.Close())
	}
	for _, mapped := range []*[]byte{&r.consumer, &r.producer, &r.window} {
		errs = append(errs, unmap(mapped))
	}
	return errors.Join(errs...)
}

// unmap ends a mapping, unless there is none.
func unmap(mapped *[]byte) error {
	if *mapped == nil {
		return nil
	}
	err := unix.Munmap(*mapped)
	*mapped = nil
	return err
}

// Interrupt makes the current Wait return, and the next ones until SetDeadline. It may be called on any goroutine.
func (r *Ring) Interrupt() error { return r.SetDeadline(time.Unix(0, 1)) }

// SetDeadline sets when a Wait returns, whatever is in the ring.
func (r *Ring) SetDeadline(t time.Time) error { return r.file.SetReadDeadline(t) }

// Wait waits until the ring is a quarter full, when the programs wake its reader, or until the deadline.
func (r *Ring) Wait() error {
	err := r.conn.Read(func(uintptr) bool { return r.waiting() > r.size/4 })
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

func (r *Ring) waiting() uint64 { return load(r.producer) - load(r.consumer) }

// load reads a number that the kernel or the reader changes.
func load(page []byte) uint64 { return atomic.LoadUint64((*uint64)(unsafe.Pointer(&page[0]))) }

// Read calls fn with each record that is in the ring. The record is fn's until it returns.
func (r *Ring) Read(fn func(record []byte) error) error {
	at, end := load(r.consumer), load(r.producer)
	for at < end {
		record, next, err := r.record(at)
		if err != nil {
			return err
		}
		if record != nil {
			if err := fn(record); err != nil {
				return err
			}
		}
		at = next
		atomic.StoreUint64((*uint64)(unsafe.Pointer(&r.consumer[0])), at)
	}
	return nil
}

// record returns the record at a position, nil if it is discarded, and the position of the next one.
func (r *Ring) record(at uint64) (record []byte, next uint64, err error) {
	header, err := r.bytes(at, ringHeader)
	if err != nil {
		return nil, 0, err
	}
	word := (*uint32)(unsafe.Pointer(&header[0]))
	length := atomic.LoadUint32(word)
	for turn := 0; length&ringBusy != 0; turn++ { // another thread is writing it
		await(turn)
		length = atomic.LoadUint32(word)
	}
	n := uint64(length &^ ringDiscarded)
	next = at + ringHeader + (n+7)&^7
	if length&ringDiscarded != 0 {
		return nil, next, nil
	}
	record, err = r.bytes(at+ringHeader, n)
	return record, next, err
}

// await waits for the writer of a record. A packet has written it within a microsecond. The clean-up of a table may
// lose its CPU to other threads before it has, perhaps to this one.
func await(turn int) {
	if turn < busyTurns {
		runtime.Gosched()
		return
	}
	time.Sleep(busyPause)
}

// bytes returns a part of the buffer. It moves the window if need be.
func (r *Ring) bytes(at, n uint64) ([]byte, error) {
	from := at & (r.size - 1)
	if n > uint64(r.page) {
		return nil, fmt.Errorf("a record of %d bytes of events: must be at most %d", n, r.page)
	}
	if from < r.first || from+n > r.first+uint64(len(r.window)) {
		if err := r.move(at); err != nil {
			return nil, err
		}
	}
	return r.window[from-r.first:][:n:n], nil
}

// move maps the buffer from a position on. A page more has the rest of a record at the end: the buffer's first page
// follows its last one. A small buffer is all in the window, which then never moves.
func (r *Ring) move(at uint64) error {
	page, n := uint64(r.page), min(windowSize, r.size)
	first := at & (r.size - 1) &^ (page - 1)
	if n == r.size {
		first = 0
	}
	if err := unmap(&r.window); err != nil {
		return err
	}
	data := 2 * int64(r.page) // behind the two pages with positions
	window, err := unix.Mmap(r.fd, data+int64(first), int(n+page), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map the event ring: %w", err)
	}
	r.window, r.first = window, first
	return nil
}
