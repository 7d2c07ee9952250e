package trial

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/require"

	"sluice/lab"
	"sluice/lab/labtest"
)

// A program at the egress runs in the sender's time, and one without a link in the time of the process that runs it.
func TestIngressPrograms(t *testing.T) {
	l := labtest.New(t, lab.Topology{})
	load := func() (*ebpf.Program, ebpf.ProgramID) {
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		info, err := p.Info()
		require.NoError(t, err)
		id, _ := info.ID()
		return p, id
	}
	at := make(map[ebpf.AttachType]ebpf.ProgramID)
	for _, where := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
		p, id := load()
		at[where] = id
		require.NoError(t, l.Relay.Do(func() error {
			k, err := link.AttachTCX(link.TCXOptions{Interface: 1, Program: p, Attach: where}) // the loopback device
			if err == nil {
				t.Cleanup(func() { require.NoError(t, k.Close()) })
			}
			return err
		}))
	}
	_, alone := load()
	first, err := ingressPrograms()
	require.NoError(t, err)
	require.True(t, first[at[ebpf.AttachTCXIngress]])
	require.False(t, first[at[ebpf.AttachTCXEgress]])
	require.False(t, first[alone])
}
