package fastpath

import (
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

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

// pinned keeps the test on one CPU, so that what it writes to a per-CPU map is what the program finds.
func pinned(t testing.TB) {
	t.Helper()
	runtime.LockOSThread()
	var before, one unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &before))
	for cpu := range 1024 {
		if before.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	require.NoError(t, unix.SchedSetaffinity(0, &one))
	t.Cleanup(func() {
		_ = unix.SchedSetaffinity(0, &before)
		runtime.UnlockOSThread()
	})
}

// cryptoKernel runs the entries of bpf/crypto_test.bpf.c.
type cryptoKernel struct{ cryptoObjects }

func newCryptoKernel(t testing.TB) *cryptoKernel {
	t.Helper()
	pinned(t)
	k := new(cryptoKernel)
	requireKernel(t, loadCryptoObjects(&k.cryptoObjects, nil))
	t.Cleanup(func() { k.Close() })
	return k
}

func (k *cryptoKernel) prepare(t testing.TB, s *cryptoScratch, a *cryptoCryptoArgs) {
	t.Helper()
	cpus, err := ebpf.PossibleCPU()
	require.NoError(t, err)
	require.NoError(t, k.Scratches.Put(uint32(0), slices.Repeat([]cryptoScratch{*s}, cpus)))
	if a != nil {
		require.NoError(t, k.Args.Put(uint32(0), a))
	}
}

// run writes the scratch and the arguments, runs p, expects its return value and reads the scratch back.
func (k *cryptoKernel) run(t testing.TB, p *ebpf.Program, want uint32, s *cryptoScratch, a *cryptoCryptoArgs) *cryptoScratch {
	t.Helper()
	k.prepare(t, s, a)
	got, err := p.Run(&ebpf.RunOptions{Data: make([]byte, 64)})
	require.NoError(t, err)
	require.Equal(t, want, got)
	return k.scratch(t)
}

// scratch reads back the one that a program changed: the pinned CPU's.
func (k *cryptoKernel) scratch(t testing.TB) *cryptoScratch {
	t.Helper()
	var all []cryptoScratch
	require.NoError(t, k.Scratches.Lookup(uint32(0), &all))
	var cpu unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &cpu))
	for i := range all {
		if cpu.IsSet(i) {
			return &all[i]
		}
	}
	t.Fatal("the pinned CPU has no scratch")
	return nil
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
	verdict, err := k.TestOpen.Run(&ebpf.RunOptions{Data: make([]byte, 64)})
	require.NoError(t, err)
	return k.scratch(t).Buf[in+payloadAt:][:n], verdict
}

// benchmark reports the time of one run as the kernel measures it, without the system call around it.
func (k *cryptoKernel) benchmark(b *testing.B, p *ebpf.Program, s *cryptoScratch, a *cryptoCryptoArgs) {
	k.prepare(b, s, a)
	_, perRun, err := p.Benchmark(make([]byte, 64), max(b.N, 10_000), b.ResetTimer)
	require.NoError(b, err)
	b.ReportMetric(float64(perRun)/float64(time.Nanosecond), "bpf_ns/op")
}
