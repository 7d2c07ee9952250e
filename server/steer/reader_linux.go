package steer

import (
	"encoding/binary"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/cpu"
)

// reader notes on which CPU the reader of a socket has woken. It belongs to that reader's goroutine.
type reader struct {
	memory *ebpf.Memory // of all readers; it is mapped for as long as somebody has it
	at     int64
	noted  uint64
	_      cpu.CacheLinePad
}

func (r *reader) write(value uint64) error {
	_, err := r.memory.WriteAt(binary.NativeEndian.AppendUint64(nil, value), r.at)
	r.noted = value
	return err
}
