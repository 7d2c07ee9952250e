package fastpath

import (
	"encoding/binary"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// requireKernel skips a test that the kernel refuses to run here; where SLUICE_REQUIRE_KERNEL is set it fails instead.
func requireKernel(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if os.Getenv("SLUICE_REQUIRE_KERNEL") != "" {
		t.Fatalf("the kernel must load BPF programs here: %+v", err)
	}
	t.Skipf("needs CAP_BPF and CAP_NET_ADMIN: %v", err)
}

// pinned runs f on one CPU and returns its number: what f writes to a per-CPU map is then what the program finds there.
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

// runOnce runs p on a packet of 64 zeros.
func runOnce(t testing.TB, p *ebpf.Program, skbMark uint32) (verdict uint32, cpu int) {
	t.Helper()
	cpu = pinned(t, func() {
		var err error
		verdict, err = p.Run(&ebpf.RunOptions{Data: make([]byte, 64), Context: mark(skbMark)})
		require.NoError(t, err)
	})
	return verdict, cpu
}

// mark is a context that passes v to a program in skb->mark.
func mark(v uint32) []byte {
	ctx := make([]byte, 192)
	binary.LittleEndian.PutUint32(ctx[8:], v)
	return ctx
}

// putPerCPU gives every CPU the same value of a per-CPU array's only element.
func putPerCPU[T any](t testing.TB, m *ebpf.Map, v *T) {
	t.Helper()
	cpus, err := ebpf.PossibleCPU()
	require.NoError(t, err)
	require.NoError(t, m.Put(uint32(0), slices.Repeat([]T{*v}, cpus)))
}

// getPerCPU is one CPU's value of a per-CPU array's only element.
func getPerCPU[T any](t testing.TB, m *ebpf.Map, cpu int) *T {
	t.Helper()
	var all []T
	require.NoError(t, m.Lookup(uint32(0), &all))
	return &all[cpu]
}

// benchmark reports the time of one run as the kernel measures it, without the system call around it.
func benchmark(b *testing.B, p *ebpf.Program) {
	pinned(b, func() {
		_, perRun, err := p.Benchmark(make([]byte, 64), max(b.N, 10_000), b.ResetTimer)
		require.NoError(b, err)
		b.ReportMetric(float64(perRun.Nanoseconds()), "bpf_ns/op")
	})
}

// cryptoKernel runs the entries of bpf/crypto_test.bpf.c.
type cryptoKernel struct{ cryptoObjects }

func newCryptoKernel(t testing.TB) *cryptoKernel {
	t.Helper()
	k := new(cryptoKernel)
	requireKernel(t, loadCryptoObjects(&k.cryptoObjects, nil))
	t.Cleanup(func() { k.Close() })
	return k
}

func (k *cryptoKernel) prepare(t testing.TB, s *cryptoScratch, a *cryptoCryptoArgs) {
	t.Helper()
	putPerCPU(t, k.Scratches, s)
	if a != nil {
		require.NoError(t, k.Args.Put(uint32(0), a))
	}
}

// run writes the scratch and the arguments, runs p, expects its return value and reads the scratch back.
func (k *cryptoKernel) run(t testing.TB, p *ebpf.Program, want uint32, s *cryptoScratch, a *cryptoCryptoArgs) *cryptoScratch {
	t.Helper()
	k.prepare(t, s, a)
	got, cpu := runOnce(t, p, 0)
	require.Equal(t, want, got)
	return getPerCPU[cryptoScratch](t, k.Scratches, cpu)
}

func (k *cryptoKernel) poly1305(t testing.TB, r, s, msg []byte) []byte {
	t.Helper()
	c := new(cryptoScratch)
	copy(asBytes(&c.R), r)
	copy(asBytes(&c.S), s)
	copy(c.Buf[payloadAt:], msg)
	c = k.run(t, k.TestPoly, 0, c, &cryptoCryptoArgs{Len: uint32(len(msg) / 16)})
	return asBytes(&c.Tag)
}

func (k *cryptoKernel) seal(t testing.TB, keys *cryptoPacketKeys, pn uint64, plaintext, aad []byte) []byte {
	t.Helper()
	c := new(cryptoScratch)
	copy(c.Buf[in+payloadAt:], plaintext)
	copy(c.Buf[out+aadAt(len(aad)):], aad)
	c = k.run(t, k.TestSeal, 0, c, &cryptoCryptoArgs{Keys: *keys, Pn: pn, Src: in + payloadAt, AadLen: uint32(len(aad)), Len: uint32(len(plaintext))})
	return c.Buf[out+payloadAt:][:len(plaintext)+16]
}

func (k *cryptoKernel) open(t testing.TB, keys *cryptoPacketKeys, pn uint64, sealed, aad []byte) ([]byte, uint32) {
	t.Helper()
	c := new(cryptoScratch)
	copy(c.Buf[in+payloadAt:], sealed)
	copy(c.Buf[in+aadAt(len(aad)):], aad)
	n := len(sealed) - 16
	k.prepare(t, c, &cryptoCryptoArgs{Keys: *keys, Pn: pn, AadLen: uint32(len(aad)), Len: uint32(n)})
	verdict, cpu := runOnce(t, k.TestOpen, 0)
	return getPerCPU[cryptoScratch](t, k.Scratches, cpu).Buf[in+payloadAt:][:n], verdict
}

func (k *cryptoKernel) benchmark(b *testing.B, p *ebpf.Program, s *cryptoScratch, a *cryptoCryptoArgs) {
	k.prepare(b, s, a)
	benchmark(b, p)
}
