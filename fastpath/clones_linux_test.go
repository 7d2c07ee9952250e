package fastpath

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/require"

	"sluice/fastpath/bpf"
	"sluice/lab"
)

// Offsets in struct __sk_buff (linux/bpf.h).
const (
	lenAt     = 0
	queueAt   = 12
	ingressAt = 36 // the index of the device that it has come by
	hashAt    = 68
)

// TestCopiesAreFlows gives the publisher's packets a hash and a queue, as devices and RPS do. The copies have their
// own: fq and devices with several queues tell subscribers apart.
func TestCopiesAreFlows(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 2}, false)
	const hash, queue = 0x1234, 3
	r.observe(r.lab.Relay.Facing(r.lab.Publisher), ebpf.AttachTCXIngress, asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.Mov.Imm(asm.R2, hash),
		asm.FnSetHash.Call(),
		asm.Mov.Imm(asm.R2, queue),
		asm.StoreMem(asm.R6, queueAt, asm.R2, asm.Word),
	})
	seen, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 12, MaxEntries: 1})
	require.NoError(t, err)
	defer seen.Close()
	r.observe(r.lab.Relay.Facing(r.lab.Subscribers[0]), ebpf.AttachTCXEgress, noteFlow(seen))
	computed := map[uint32]bool{hash: true}
	for i, s := range r.subscribers {
		require.NoError(t, r.SetTrack(5, 128, []bpf.Subscription{r.subscription(s)}))
		r.publish(stream(3+4*uint64(i), 0, 1, append(subgroupHeader(77, 1, uint64(i), 9), make([]byte, 1000)...)))
		r.receive(s)
		var flow struct{ Hash, Queue, Computed uint32 }
		require.NoError(t, seen.Lookup(uint32(0), &flow))
		require.Zero(t, flow.Hash, "the stack computes it when it is needed")
		require.Zero(t, flow.Queue)
		computed[flow.Computed] = true
	}
	require.Len(t, computed, 3)
}

// noteFlow notes the hash and the queue of large packets, and the hash that the stack computes.
func noteFlow(m *ebpf.Map) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R2, asm.R6, lenAt, asm.Word),
		asm.JLT.Imm(asm.R2, 1000, "next"),
		asm.LoadMapValue(asm.R7, m.FD(), 0),
		asm.LoadMem(asm.R2, asm.R6, hashAt, asm.Word),
		asm.StoreMem(asm.R7, 0, asm.R2, asm.Word),
		asm.LoadMem(asm.R2, asm.R6, queueAt, asm.Word),
		asm.StoreMem(asm.R7, 4, asm.R2, asm.Word),
		asm.FnGetHashRecalc.Call(),
		asm.StoreMem(asm.R7, 8, asm.R0, asm.Word),
	}
}

// observe runs a program on the packets of a device of the relay: first at ingress, and last at egress.
func (r *rig) observe(d *lab.Device, at ebpf.AttachType, code asm.Instructions) {
	next := asm.Instructions{asm.Mov.Imm(asm.R0, -1).WithSymbol("next"), asm.Return()}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, Instructions: append(code, next...),
		License: "MIT"})
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, p.Close()) })
	where := link.Anchor(link.Tail())
	if at == ebpf.AttachTCXIngress {
		where = link.Head()
	}
	require.NoError(r.t, r.lab.Relay.Do(func() error {
		l, err := link.AttachTCX(link.TCXOptions{Interface: r.index(d), Program: p, Attach: at, Anchor: where})
		if err == nil {
			r.t.Cleanup(func() { require.NoError(r.t, l.Close()) })
		}
		return err
	}))
}
