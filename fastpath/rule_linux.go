package fastpath

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/internal/logs"
)

// Rule is an operator's function admit (bpf/policy/admission.h), which takes the place of the built-in one. It is
// linked into the programs before they are loaded, so they are verified with it, and it costs a copy nothing but its
// own instructions. The kernel could also replace a function of a loaded program (BPF_PROG_TYPE_EXT), but not on all
// machines: that needs kernel tracing.
//
// The media sender asks the same function, with the same maps, by BPF_PROG_RUN. So both senders decide the same.
type Rule struct {
	name    string
	code    asm.Instructions // of admit, and of the functions that it calls
	license string
	maps    *ebpf.Collection
	ask     bpf.AskObjects
	log     *logs.Sparse
}

var _ claim.Rule = (*Rule)(nil)

// admitName is the function that a rule replaces.
const admitName = "admit"

// LoadRule loads an object file of clang with a function admit. logger gets the messages that an operator can act on.
func LoadRule(file string, logger *slog.Logger) (*Rule, error) {
	r := &Rule{name: filepath.Base(file), log: logs.NewSparse(logger)}
	if err := r.load(file); err != nil {
		return nil, errors.Join(fmt.Errorf("policy %s: %w", file, err), r.Close())
	}
	return r, nil
}

func (r *Rule) load(file string) error {
	object, err := ebpf.LoadCollectionSpec(file)
	if err != nil {
		return fmt.Errorf("%w (it must be an object file of clang -target bpfel -O2 -g)", err)
	}
	ask, err := bpf.LoadAsk()
	if err != nil {
		return err
	}
	p := object.Programs[admitName]
	if p == nil {
		return errors.New(`there is no function admit in a section: SEC("policy") int admit(struct admission *a)`)
	}
	if err := sameSignature(ask.Programs[bpf.AskProgAsk], p); err != nil {
		return err
	}
	r.license = p.License
	r.maps, err = ebpf.NewCollection(&ebpf.CollectionSpec{
		Maps: object.Maps, Types: object.Types, ByteOrder: object.ByteOrder,
	})
	if err != nil {
		return explain(err)
	}
	if r.code, err = r.linkable(p.Instructions); err != nil {
		return err
	}
	if err := r.link(ask); err != nil {
		return err
	}
	if err := ask.LoadAndAssign(&r.ask, nil); err != nil {
		return explain(err)
	}
	return nil
}

// linkable returns the instructions with their maps, and with names for the functions besides admit that no function of
// ours has.
func (r *Rule) linkable(code asm.Instructions) (asm.Instructions, error) {
	code = slices.Clone(code)
	own := func(name string) string { return "policy." + name }
	for i := range code {
		ins := &code[i]
		if s := ins.Symbol(); s != "" && s != admitName {
			*ins = ins.WithSymbol(own(s))
		}
		name := ins.Reference()
		switch {
		case name == "":
		case ins.IsFunctionReference() && name != admitName:
			*ins = ins.WithReference(own(name))
		case ins.IsLoadFromMap():
			m := r.maps.Maps[name]
			if m == nil {
				return nil, fmt.Errorf("there is no map %s", name)
			}
			if err := ins.AssociateMap(m); err != nil {
				return nil, err
			}
		}
	}
	return code, nil
}

// link puts the function into the place of admit in all programs that have it.
func (r *Rule) link(spec *ebpf.CollectionSpec) error {
	for _, p := range spec.Programs {
		begin, end := extent(p.Instructions, admitName)
		if begin < 0 {
			continue
		}
		p.Instructions = slices.Concat(p.Instructions[:begin], r.code, p.Instructions[end:])
		p.License = r.license // the kernel offers some helpers to GPL-compatible programs only, and ours use them
	}
	if v := spec.Variables[bpf.IngressVarReplaced]; v != nil {
		return v.Set(uint32(1))
	}
	return nil
}

// extent returns where a function begins and ends, or -1.
func extent(code asm.Instructions, function string) (begin, end int) {
	begin = slices.IndexFunc(code, func(i asm.Instruction) bool { return i.Symbol() == function })
	if begin < 0 {
		return begin, begin
	}
	rest := slices.IndexFunc(code[begin+1:], func(i asm.Instruction) bool { return i.Symbol() != "" })
	if rest < 0 {
		return begin, len(code)
	}
	return begin, begin + 1 + rest
}

// sameSignature returns an error unless the programs' functions admit can take each other's place. Without this check a
// function could read beyond the question.
func sameSignature(ours, theirs *ebpf.ProgramSpec) error {
	want, _ := question(ours)
	got, global := question(theirs)
	switch {
	case got == nil || !global:
		return errors.New("admit must be int admit(struct admission *a), not static, compiled with clang -g")
	case len(got.Members) > len(want.Members):
		return fmt.Errorf("its struct admission has %d fields, and this relay's %d: compile it with this relay's "+
			"fastpath/bpf/policy/admission.h", len(got.Members), len(want.Members))
	}
	for i, m := range got.Members {
		if w := want.Members[i]; m.Name != w.Name || m.Offset != w.Offset || !sameType(m.Type, w.Type) {
			return fmt.Errorf("field %d of its struct admission is %s, and this relay's %s: compile it with this "+
				"relay's fastpath/bpf/policy/admission.h", i+1, m.Name, w.Name)
		}
	}
	return nil
}

// sameType reports whether two types are the same number.
func sameType(a, b btf.Type) bool {
	x, isInt := btf.UnderlyingType(a).(*btf.Int)
	y, isIntToo := btf.UnderlyingType(b).(*btf.Int)
	return isInt && isIntToo && x.Size == y.Size && x.Encoding == y.Encoding
}

// question returns the struct that a program's function admit gets, or nil, and whether the function is global.
func question(p *ebpf.ProgramSpec) (s *btf.Struct, global bool) {
	begin, _ := extent(p.Instructions, admitName)
	if begin < 0 {
		return nil, false
	}
	f := btf.FuncMetadata(&p.Instructions[begin])
	if f == nil {
		return nil, false
	}
	proto, _ := f.Type.(*btf.FuncProto)
	if proto == nil || len(proto.Params) != 1 {
		return nil, false
	}
	if _, isInt := btf.UnderlyingType(proto.Return).(*btf.Int); !isInt {
		return nil, false
	}
	pointer, _ := btf.UnderlyingType(proto.Params[0].Type).(*btf.Pointer)
	if pointer == nil {
		return nil, false
	}
	s, _ = btf.UnderlyingType(pointer.Target).(*btf.Struct)
	return s, f.Linkage == btf.GlobalFunc
}

// String returns the name of the file.
func (r *Rule) String() string { return r.name }

// askHeader is the Ethernet header in front of a question (ask.bpf.c).
const askHeader = 14

// Admit implements [claim.Rule]. If the kernel cannot be asked, the built-in rule decides.
func (r *Rule) Admit(s *claim.ConnState, a claim.Admission) claim.Verdict {
	q := bpf.AskAdmission{
		Now: uint64(a.Now), Age: uint64(max(a.Age, 0)), Group: a.Group, Window: s.Window.Load(),
		InFlight: s.InFlight.Load(), BucketCost: s.BucketCost.Load(), Level: a.Level, Threshold: s.Threshold.Load(),
		PacketLen: uint32(a.Size),
	}
	level, burst := s.BucketLevel(a.Now)
	q.BucketBurst = uint64(burst)
	if q.BucketCost != 0 {
		q.Bucket, q.BucketClass = level, uint32(s.Class(a.Level))
	}
	var packet [askHeader + unsafe.Sizeof(q)]byte
	copy(packet[askHeader:], unsafe.Slice((*byte)(unsafe.Pointer(&q)), unsafe.Sizeof(q)))
	answer, err := runProgram(r.ask.Ask, packet[:], nil)
	if err != nil {
		r.log.Log(slog.LevelError, "policy", "the policy does not answer: the built-in one decides", "policy", r.name,
			"err", err)
		a.Size = 0 // it is asked about objects only
		return s.Admit(a)
	}
	switch bpf.AskAnswer(answer) {
	case bpf.AskAnswerADMIT:
		return claim.Admitted
	case bpf.AskAnswerDECLINE_PRIORITY:
		return claim.BeyondThreshold
	case bpf.AskAnswerDECLINE_BUCKET:
		return claim.BucketLow
	}
	return claim.Declined
}

// Close frees the memory. Who asks the rule must have ended.
func (r *Rule) Close() error {
	if r.maps != nil {
		r.maps.Close()
	}
	return r.ask.Close()
}
