package fastpath

import (
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/clock"
	"sluice/fastpath/bpf"
	"sluice/fastpath/bpf/bpftest"
)

// evenGroups is a rule for tests (bpf/bpftest/rule.bpf.c).
const evenGroups = "bpf/bpftest/rule_bpfel.o"

// openRule loads it.
func openRule(t testing.TB) *Rule {
	t.Helper()
	r, err := LoadRule(evenGroups, slog.Default())
	bpftest.RequireKernel(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// TestSameRule asks an operator's rule as both senders do, about the same: the questions are equal, field by field,
// because the rule mixes all fields to its answer.
func TestSameRule(t *testing.T) {
	rule := openRule(t)
	k := bpftest.NewPolicy(t, rule.link)
	verdicts := map[claim.Verdict]bpftest.PolicyReason{
		claim.Admitted:        bpftest.PolicyReasonCOPY_SENT,
		claim.BeyondThreshold: bpftest.PolicyReasonCOPY_PRIORITY,
		claim.BucketLow:       bpftest.PolicyReasonCOPY_BUCKET,
		claim.Declined:        bpftest.PolicyReasonCOPY_POLICY,
	}
	r := rand.New(rand.NewPCG(1, 2))
	seen := make(map[claim.Verdict]int)
	for range 1000 {
		var s claim.ConnState
		s.Window.Store(uint64(1<<40 + r.IntN(5)))
		s.InFlight.Store(uint64(r.IntN(5)))
		s.MTU.Store(1500)
		s.Threshold.Store(uint32(r.IntN(5)))
		if r.IntN(4) > 0 {
			s.SetBucket(claim.Bucket{Rate: 100_000, Burst: 100_000, Bounds: [4]uint16{10, 20, 30, 40}})
		}
		s.BucketBurst.Store(400_000_000)
		now := clock.NewSystem().Now()
		s.BucketAt.Store(uint64(now.Add(400*time.Second - time.Duration(r.IntN(6)-1)*100*time.Second - 50*time.Second)))
		level, group, size := uint32(r.IntN(60)), uint64(1<<32+r.IntN(5)), r.IntN(2)*1200
		k.SetPacket(t, group)
		why := k.MayGo(t, &s, level, uint32(size))
		got := rule.Admit(&s, claim.Admission{Level: level, Size: size, Now: now, Group: group})
		require.Equal(t, verdicts[got], why, "level %d, group %d, %d bytes, %+v", level, group, size, got)
		seen[got]++
	}
	require.Len(t, seen, len(verdicts), "not all answers were given: %v", seen)
	var asked uint64
	require.NoError(t, rule.maps.Maps["asked"].Lookup(uint32(0), &asked))
	require.EqualValues(t, 2000, asked, "both have the same maps")
}

// TestRuleFile loads files that are no rules for this relay. The error says what to do.
func TestRuleFile(t *testing.T) {
	text := filepath.Join(t.TempDir(), "policy.o")
	require.NoError(t, os.WriteFile(text, []byte("no object"), 0o600))
	for file, says := range map[string]string{
		text:                       "clang -target bpfel -O2 -g",
		text + ".none":             "no such file",
		"bpf/bpftest/walk_bpfel.o": `SEC("policy") int admit(struct admission *a)`,
	} {
		_, err := LoadRule(file, slog.Default())
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, file)
	}
}

// TestRuleSignature changes the rule's struct admission.
func TestRuleSignature(t *testing.T) {
	ask, err := bpf.LoadAsk()
	require.NoError(t, err)
	for name, change := range map[string]func(*btf.Func, *btf.Struct){
		"":                       func(*btf.Func, *btf.Struct) {},
		"compiled with clang -g": func(f *btf.Func, _ *btf.Struct) { f.Linkage = btf.StaticFunc },
		"not static":             func(f *btf.Func, _ *btf.Struct) { f.Type.(*btf.FuncProto).Params = nil },
		"must be int admit": func(f *btf.Func, _ *btf.Struct) {
			f.Type.(*btf.FuncProto).Return = (*btf.Void)(nil)
		},
		"has 14 fields, and this relay's 13": func(_ *btf.Func, s *btf.Struct) {
			s.Members = append(s.Members, s.Members[0])
		},
		"field 2 of its struct admission is old, and this relay's age": func(_ *btf.Func, s *btf.Struct) {
			s.Members[1].Name = "old"
		},
		"field 3 of its struct admission": func(_ *btf.Func, s *btf.Struct) { s.Members[2].Offset += 8 },
		"field 4 of its struct admission": func(_ *btf.Func, s *btf.Struct) { s.Members[3].Type = s.Members[7].Type },
	} {
		object, err := ebpf.LoadCollectionSpec(evenGroups)
		require.NoError(t, err)
		p := object.Programs[admitName]
		s, _ := question(p)
		change(btf.FuncMetadata(&p.Instructions[0]), s)
		err = sameSignature(ask.Programs[bpf.AskProgAsk], p)
		if name == "" {
			require.NoError(t, err)
			s.Members = s.Members[:5] // as before the others were added
			require.NoError(t, sameSignature(ask.Programs[bpf.AskProgAsk], p))
			continue
		}
		require.ErrorContains(t, err, name)
	}
}

func BenchmarkAskRule(b *testing.B) {
	rule := openRule(b)
	var s claim.ConnState
	for b.Loop() {
		rule.Admit(&s, claim.Admission{Level: 1, Group: 2})
	}
}
