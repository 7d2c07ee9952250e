package bpftest

import (
	"encoding/binary"
	"io"
	"os"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// RequireKernel skips a test that the kernel refuses to run here; where SLUICE_REQUIRE_KERNEL is set it fails instead.
func RequireKernel(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if os.Getenv("SLUICE_REQUIRE_KERNEL") != "" {
		t.Fatalf("the kernel must load BPF programs here: %+v", err)
	}
	t.Skipf("needs CAP_BPF and CAP_NET_ADMIN: %v", err)
}

// load loads programs, after changes, until the test ends.
func load(
	t testing.TB, read func() (*ebpf.CollectionSpec, error), objects io.Closer,
	changes ...func(*ebpf.CollectionSpec) error,
) {
	t.Helper()
	spec, err := read()
	require.NoError(t, err)
	for _, change := range changes {
		require.NoError(t, change(spec))
	}
	RequireKernel(t, spec.LoadAndAssign(objects, nil))
	t.Cleanup(func() { objects.Close() })
}

// pinned runs f on one CPU and returns the CPU's number: a program that f runs finds what f wrote to a per-CPU map.
func pinned(t testing.TB, f func()) int {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &before))
	cpu := 0
	for !before.IsSet(cpu) {
		cpu++
	}
	one.Set(cpu)
	require.NoError(t, unix.SchedSetaffinity(0, &one))
	defer func() { require.NoError(t, unix.SchedSetaffinity(0, &before)) }()
	f()
	return cpu
}

// runOnce runs p on a packet of 64 zeros, with a mark.
func runOnce(t testing.TB, p *ebpf.Program, mark uint32) (verdict uint32, cpu int) {
	t.Helper()
	context := make([]byte, 192) // struct __sk_buff
	binary.LittleEndian.PutUint32(context[8:], mark)
	cpu = pinned(t, func() {
		var err error
		verdict, err = p.Run(&ebpf.RunOptions{Data: make([]byte, 64), Context: context})
		require.NoError(t, err)
	})
	return verdict, cpu
}

// putPerCPU gives every CPU the same value of a per-CPU array's only element.
func putPerCPU[T any](t testing.TB, m *ebpf.Map, v *T) {
	t.Helper()
	cpus, err := ebpf.PossibleCPU()
	require.NoError(t, err)
	require.NoError(t, m.Put(uint32(0), slices.Repeat([]T{*v}, cpus)))
}

// getPerCPU returns one CPU's value of a per-CPU array's only element.
func getPerCPU[T any](t testing.TB, m *ebpf.Map, cpu int) *T {
	t.Helper()
	var all []T
	require.NoError(t, m.Lookup(uint32(0), &all))
	return &all[cpu]
}

// Benchmark reports the time of one run as the kernel measures it, without the system call around it.
func Benchmark(b *testing.B, p *ebpf.Program) {
	pinned(b, func() {
		_, perRun, err := p.Benchmark(make([]byte, 64), max(b.N, 10_000), b.ResetTimer)
		require.NoError(b, err)
		b.ReportMetric(float64(perRun.Nanoseconds()), "bpf_ns/op")
	})
}

// Bytes returns the memory of v.
func Bytes[T any](v *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)) }
