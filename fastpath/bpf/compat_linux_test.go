package bpf_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/require"

	"sluice/fastpath/bpf"
	"sluice/fastpath/bpf/bpftest"
)

// loaders load the objects that are loaded into the kernel.
var loaders = []func() (*ebpf.CollectionSpec, error){bpf.LoadIngress, bpf.LoadEgress, bpf.LoadAsk, bpf.LoadRTP}

// programs returns the programs that are loaded into the kernel.
func programs(t *testing.T) (all []*ebpf.ProgramSpec) {
	for _, load := range loaders {
		spec, err := load()
		require.NoError(t, err)
		for _, p := range spec.Programs {
			all = append(all, p)
		}
		for _, m := range spec.Maps {
			require.LessOrEqual(t, m.Type, ebpf.CgroupStorage, "%s: a type that Linux 6.6 does not have", m.Name)
		}
	}
	return all
}

// TestLoaders checks that no object is left out of the tests here.
func TestLoaders(t *testing.T) {
	objects, err := filepath.Glob("*_bpfel.o")
	require.NoError(t, err)
	objects = slices.DeleteFunc(objects, func(name string) bool { return strings.Contains(name, "_unprotected_") })
	require.Len(t, loaders, len(objects), objects)
}

// TestLoad loads the programs through this kernel's verifier.
func TestLoad(t *testing.T) {
	for _, load := range loaders {
		spec, err := load()
		require.NoError(t, err)
		c, err := ebpf.NewCollection(spec)
		bpftest.RequireKernel(t, err)
		c.Close()
	}
}

// TestKernelFunctions keeps the programs from using helpers that Linux 6.6 does not have.
func TestKernelFunctions(t *testing.T) {
	const lastHelper = asm.FnCgrpStorageDelete // none was added since Linux 6.2
	for _, p := range programs(t) {
		for _, ins := range p.Instructions {
			if ins.IsKfuncCall() {
				require.Equal(t, "bpf_cast_to_kern_ctx", ins.Reference(), "is it as old as Linux 6.6?")
			}
			if ins.IsBuiltinCall() {
				require.LessOrEqual(t, asm.BuiltinFunc(ins.Constant), lastHelper)
			}
		}
	}
}

// TestStackDepth keeps each chain of calls within the 512 bytes of a BPF stack, counted as kernels before 6.10
// do: a function takes at least 32 bytes, and a multiple of that.
func TestStackDepth(t *testing.T) {
	for _, p := range programs(t) {
		own, calls := stackUse(p.Instructions)
		var deepest func(string) (int, string)
		deepest = func(f string) (depth int, chain string) {
			for _, callee := range calls[f] {
				if d, c := deepest(callee); d > depth {
					depth, chain = d, c
				}
			}
			return depth + inStack(own[f]), f + " " + chain
		}
		depth, chain := deepest(p.Instructions[0].Symbol())
		t.Log(depth, chain)
		require.LessOrEqual(t, depth, 512, chain)
	}
}

// TestStackOfRule checks that an operator's program has no more stack when user space asks it than in the other
// programs: so the verifier refuses it when it is loaded, and not when the fast path is. All that make copies ask it.
func TestStackOfRule(t *testing.T) {
	before := make(map[string]int) // admit is called
	for _, p := range programs(t) {
		own, calls := stackUse(p.Instructions)
		var walk func(string, int)
		walk = func(f string, depth int) {
			if f == "admit" {
				before[p.Name] = max(before[p.Name], depth)
			}
			for _, callee := range calls[f] {
				walk(callee, depth+inStack(own[f]))
			}
		}
		walk(p.Instructions[0].Symbol(), 0)
		if slices.ContainsFunc(p.Instructions, clones) {
			require.Positive(t, before[p.Name], p.Name)
		}
	}
	for name, depth := range before {
		require.GreaterOrEqual(t, before["ask"], depth, name)
	}
	require.GreaterOrEqual(t, 512-before["ask"], 192, "what fastpath/bpf/policy/admission.h promises")
}

// clones reports whether an instruction makes a copy of the packet.
func clones(i asm.Instruction) bool {
	return i.IsBuiltinCall() && asm.BuiltinFunc(i.Constant) == asm.FnCloneRedirect
}

// inStack returns how much of the stack a function takes that uses n bytes.
func inStack(n int) int { return (max(n, 1) + 31) / 32 * 32 }

// stackUse returns the bytes of stack that each function uses, and the functions that it calls, itself or by bpf_loop.
func stackUse(program asm.Instructions) (own map[string]int, calls map[string][]string) {
	own, calls = make(map[string]int), make(map[string][]string)
	name := ""
	for i, ins := range program {
		if s := ins.Symbol(); s != "" {
			name = s
		}
		if ins.IsFunctionReference() {
			calls[name] = append(calls[name], ins.Reference())
		}
		op, class := ins.OpCode, ins.OpCode.Class()
		at := 0
		switch {
		case class.IsLoad() && ins.Src == asm.R10, class.IsStore() && ins.Dst == asm.R10:
			at = int(ins.Offset)
		case class.IsALU() && op.ALUOp() == asm.Mov && op.Source() == asm.RegSource && ins.Src == asm.R10:
			if next := program[i+1]; next.OpCode.ALUOp() == asm.Add && next.Dst == ins.Dst {
				at = int(next.Constant)
			}
		}
		own[name] = max(own[name], -at)
	}
	return own, calls
}
