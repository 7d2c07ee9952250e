package fastpath

import (
	"os"
	"runtime"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// runAttr are the parameters of BPF_PROG_RUN: the beginning of member test of union bpf_attr in linux/bpf.h.
type runAttr struct {
	program, result  uint32
	dataIn, dataOut  uint32 // lengths
	data             unsafe.Pointer
	_                uint64
	repeat, duration uint32
	contextIn        uint32 // length
	_                uint32
	context          unsafe.Pointer
}

// runContext is the beginning of struct __sk_buff in linux/bpf.h.
type runContext struct {
	_       [12]uint32
	control [5]uint32 // cb
}

// runProgram runs a program on data by BPF_PROG_RUN, and returns its result. The context may be nil. Go's scheduler is
// not told of the system call, see package transport.
func runProgram(p *ebpf.Program, data []byte, context *runContext) (result uint32, err error) {
	attr := runAttr{
		program: uint32(p.FD()), dataIn: uint32(len(data)),
		data: unsafe.Pointer(unsafe.SliceData(data)),
	}
	if context != nil {
		attr.contextIn, attr.context = uint32(unsafe.Sizeof(*context)), unsafe.Pointer(context)
	}
	_, _, errno := unix.RawSyscall(unix.SYS_BPF, unix.BPF_PROG_TEST_RUN, uintptr(unsafe.Pointer(&attr)),
		unsafe.Sizeof(attr))
	runtime.KeepAlive(data)
	runtime.KeepAlive(context)
	if errno != 0 {
		return 0, os.NewSyscallError("bpf(BPF_PROG_RUN)", errno)
	}
	return attr.result, nil
}
