package fastpath_test

import (
	"net"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/claim/claimtest"
	"sluice/fastpath"
)

// tcxNext has the next program of a device see the packet, too.
const tcxNext = -1

// lookout is a program at the egress of the subscriber's device, which a copy passes before anybody can have it. It
// notes the packet number in a record of the ledger.
type lookout struct {
	record *ebpf.Map // which one
	number *ebpf.Map // what it has
}

func newLookout(r *kernelRig) *lookout {
	word := func() *ebpf.Map {
		m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
		require.NoError(r, err)
		r.Cleanup(func() { m.Close() })
		return m
	}
	o := &lookout{record: word(), number: word()}
	element := func(of *ebpf.Map, key ...asm.Instruction) asm.Instructions { // R0: where it is
		return append(key, asm.LoadMapPtr(asm.R1, of.FD()), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4),
			asm.FnMapLookupElem.Call(), asm.JEq.Imm(asm.R0, 0, "end"))
	}
	first := asm.StoreImm(asm.RFP, -4, 0, asm.Word)
	code := element(o.record, first)
	code = append(code, asm.LoadMem(asm.R6, asm.R0, 0, asm.DWord))
	code = append(code, element(fastpath.LedgerMap(r.down), asm.StoreMem(asm.RFP, -4, asm.R6, asm.Word))...)
	code = append(code, asm.LoadMem(asm.R6, asm.R0, 0, asm.DWord)) // pn comes first
	code = append(code, element(o.number, first)...)
	code = append(code, asm.StoreMem(asm.R0, 0, asm.R6, asm.DWord),
		asm.Mov.Imm(asm.R0, tcxNext).WithSymbol("end"), asm.Return())
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, Instructions: code})
	require.NoError(r, err)
	r.Cleanup(func() { program.Close() })
	require.NoError(r, r.lab.Relay.Do(func() error { return o.attach(r, program) }))
	return o
}

func (o *lookout) attach(r *kernelRig, program *ebpf.Program) error {
	device, err := net.InterfaceByName(r.lab.Relay.Facing(r.lab.Subscribers[0]).Name)
	if err != nil {
		return err
	}
	l, err := link.AttachTCX(link.TCXOptions{
		Interface: device.Index, Program: program, Attach: ebpf.AttachTCXEgress, Anchor: link.Head(),
	})
	if err == nil {
		r.Cleanup(func() { l.Close() })
	}
	return err
}

// TestRecordComesFirst looks at the ledger when a copy leaves: its record is there (I3).
func TestRecordComesFirst(t *testing.T) {
	r := newKernelRig(t)
	r.claims = claimtest.NewClaims(r.sub, r.open(publishersStream), r.records)
	r.claims.Reset(publishersStream, 1<<20)
	o := newLookout(r)
	for from := int64(0); from < claimEnd; from += 10 {
		number := r.sub.NextPN.Load()
		require.NoError(t, o.record.Put(uint32(0), number%claim.LedgerLen))
		require.NoError(t, o.number.Put(uint32(0), ^uint64(0)))
		r.see(r.piece(from, from+10))
		require.Equal(t, number+1, r.sub.NextPN.Load(), "a copy was sent")
		var recorded uint64
		require.NoError(t, o.number.Lookup(uint32(0), &recorded))
		require.Equal(t, number, recorded)
	}
}
