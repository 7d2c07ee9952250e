package steer

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"

	"sluice/server/steer/bpf"
)

// reader notes on which CPU the reader of a socket has woken. It belongs to that reader's goroutine.
type reader struct {
	memory *ebpf.Memory // of all readers; it is mapped for as long as somebody has it
	at     int64
	noted  uint64
	_      cpu.CacheLinePad
}

// newReaders returns the readers of the sockets of this process. Nobody has told yet where they run.
func (g *Group) newReaders() ([]reader, error) {
	memory, err := g.maps.Readers.Memory()
	if err != nil {
		return nil, err
	}
	readers := make([]reader, len(g.sockets))
	for i := range readers {
		r := &readers[i]
		r.memory, r.at = memory, int64(g.at(i))*int64(unsafe.Sizeof(r.noted))
		if err := r.write(0); err != nil {
			return nil, err
		}
	}
	return readers, nil
}

func (r *reader) write(value uint64) error {
	_, err := r.memory.WriteAt(binary.NativeEndian.AppendUint64(nil, value), r.at)
	r.noted = value
	return err
}

// Woken notes on which CPU the reader of a socket runs. The reader calls it when it has woken. The program reads the
// note for each datagram, so Woken writes it only if it has changed.
func (g *Group) Woken(socket int) {
	var at uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&at)), 0, 0); errno != 0 {
		return
	}
	if r := &g.readers[socket]; r.noted != uint64(at)+1 {
		_ = r.write(uint64(at) + 1) // cannot fail: it did not at first
	}
}

// Arrivals returns how many datagrams came to each socket of this process on the CPU that its reader had woken on last,
// and on others. Processes that share the port are counted together.
func (g *Group) Arrivals() ([]Arrivals, error) {
	all := make([]Arrivals, len(g.sockets))
	var perCPU []bpf.SteerArrivals
	for i := range all {
		if err := g.maps.Arrived.Lookup(uint32(i), &perCPU); err != nil {
			return nil, fmt.Errorf("steer datagrams: read the counters of socket %d: %w", i, err)
		}
		for _, a := range perCPU {
			all[i].SameCPU += a.SameCpu
			all[i].OtherCPU += a.OtherCpu
		}
	}
	return all, nil
}
