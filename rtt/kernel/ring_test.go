//go:build linux

package kernel

import (
	"encoding/binary"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/require"
)

// ringWriter is a ring buffer of events, and a program that adds a record full of the number in its packet.
type ringWriter struct {
	*ebpf.Map
	program *ebpf.Program
}

// newRingWriter wakes the reader with each record or, as the programs of the monitor mostly do, with none.
func newRingWriter(t *testing.T, size uint32, wake bool) *ringWriter {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: size})
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	flags := int32(1) // BPF_RB_NO_WAKEUP
	if wake {
		flags = 2 // BPF_RB_FORCE_WAKEUP
	}
	code := asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 0, asm.Word), // data
		asm.LoadMem(asm.R3, asm.R1, 4, asm.Word), // data_end
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, 8),
		asm.Mov.Imm(asm.R0, -1),
		asm.JGT.Reg(asm.R4, asm.R3, "end"),
		asm.LoadMem(asm.R5, asm.R2, 0, asm.DWord),
	}
	for at := 8; at <= recordLength; at += 8 {
		code = append(code, asm.StoreMem(asm.RFP, -int16(at), asm.R5, asm.DWord))
	}
	code = append(code,
		asm.LoadMapPtr(asm.R1, m.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -recordLength),
		asm.Mov.Imm(asm.R3, recordLength),
		asm.Mov.Imm(asm.R4, flags),
		asm.FnRingbufOutput.Call(),
		asm.Return().WithSymbol("end"))
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: code})
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return &ringWriter{m, p}
}

// recordLength makes records begin at all places of the buffer's last page, and lie across its end.
const recordLength = 496 - 8

// add adds a record with a number. It reports whether there was room.
func (w *ringWriter) add(t *testing.T, number uint64) bool {
	packet := binary.NativeEndian.AppendUint64(nil, number)
	failed, err := w.program.Run(&ebpf.RunOptions{Data: append(packet, make([]byte, 8)...)})
	require.NoError(t, err)
	return failed == 0
}

// numbers reads a ring, and returns the numbers of its records.
func numbers(t *testing.T, r *Ring) (all []uint64) {
	require.NoError(t, r.Read(func(record []byte) error {
		require.Len(t, record, recordLength)
		n := binary.NativeEndian.Uint64(record)
		for i := 0; i < recordLength; i += 8 {
			require.Equal(t, n, binary.NativeEndian.Uint64(record[i:]))
		}
		all = append(all, n)
		return nil
	}))
	return all
}

// TestRing writes several times as much as the buffer holds, a few records at a time or as many as there is room for,
// and reads each record once.
func TestRing(t *testing.T) {
	requireKernel(t)
	const size = 1 << 19
	w := newRingWriter(t, size, false)
	r, err := NewRing(w.Map)
	require.NoError(t, err)
	defer r.Close()
	require.Empty(t, numbers(t, r))
	require.Empty(t, r.window, "nothing was read yet")
	number := uint64(0)
	for _, at := range []int{1, 7, 30, 200, 1 << 20, 1, 1 << 20, 3} {
		for read := 0; read < 3*size; {
			first := number
			for int(number-first) < at && w.add(t, number) {
				number++
			}
			got := numbers(t, r)
			require.Len(t, got, int(number-first))
			for i, n := range got {
				require.Equal(t, first+uint64(i), n)
			}
			read += len(got) * (recordLength + 8)
		}
		require.Len(t, r.window, windowSize+os.Getpagesize())
	}
}

// TestRingWaits waits for a deadline, for an interrupt, and for a ring that fills up.
func TestRingWaits(t *testing.T) {
	requireKernel(t)
	const size = 1 << 16
	w := newRingWriter(t, size, true)
	r, err := NewRing(w.Map)
	require.NoError(t, err)
	defer r.Close()
	require.NoError(t, r.SetDeadline(time.Now().Add(time.Millisecond)))
	require.NoError(t, r.Wait())

	wait := func() <-chan error {
		ended := make(chan error, 1)
		go func() { ended <- r.Wait() }()
		return ended
	}
	require.NoError(t, r.SetDeadline(time.Now().Add(time.Hour)))
	ended := wait()
	require.NoError(t, r.Interrupt())
	require.NoError(t, <-ended)
	require.NoError(t, r.Wait(), "until there is another deadline")

	require.NoError(t, r.SetDeadline(time.Now().Add(time.Hour)))
	ended = wait()
	for n := range uint64(size/4/(recordLength+8) + 1) {
		select {
		case err := <-ended:
			t.Fatalf("less than a quarter is there: %v", err)
		default:
		}
		require.True(t, w.add(t, n))
	}
	require.NoError(t, <-ended)
	require.NoError(t, r.Wait(), "it is still a quarter full")
	numbers(t, r)
	require.NoError(t, r.Interrupt())
	require.NoError(t, r.Wait())
}

// TestRingEnds has a reader of records that fails: the rest stays in the ring.
func TestRingEnds(t *testing.T) {
	requireKernel(t)
	w := newRingWriter(t, 1<<16, false)
	r, err := NewRing(w.Map)
	require.NoError(t, err)
	require.True(t, w.add(t, 1) && w.add(t, 2))
	full := errors.New("no space left")
	require.ErrorIs(t, r.Read(func([]byte) error { return full }), full)
	require.Equal(t, []uint64{1, 2}, numbers(t, r))
	require.NoError(t, r.Close())
	require.Error(t, r.Wait(), "it is closed")
}

// TestRingSleeps has a writer that loses its CPU before a record is complete. Time goes on in the test only while the
// reader sleeps.
func TestRingSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 4096
		r := &Ring{
			size: size, page: size, consumer: make([]byte, 8), producer: make([]byte, 8), window: make([]byte, size),
		}
		header := (*uint32)(unsafe.Pointer(&r.window[0]))
		*header = 8 | ringBusy
		binary.NativeEndian.PutUint64(r.producer, ringHeader+8)
		go func() {
			time.Sleep(time.Minute)
			r.window[ringHeader] = 7
			atomic.StoreUint32(header, 8)
		}()
		var got []byte
		require.NoError(t, r.Read(func(record []byte) error {
			got = append(got, record...)
			return nil
		}))
		require.Equal(t, []byte{7, 0, 0, 0, 0, 0, 0, 0}, got)
	})
}
