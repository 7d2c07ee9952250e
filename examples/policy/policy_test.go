package policy_test

import (
	"cmp"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"sluice/claim"
	"sluice/fastpath"
)

// TestPolicy compiles policy.c, loads it into the kernel (as root), and asks it as the media sender does.
func TestPolicy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.o")
	clang := exec.CommandContext(t.Context(), cmp.Or(os.Getenv("BPF2GO_CC"), "clang"), "-target", "bpfel", "-O2", "-g",
		"-Wall", "-Werror", "-I../../fastpath/bpf/policy", "-I../../internal/bpf/include",
		"-I/usr/include/x86_64-linux-gnu", "-I/usr/include/aarch64-linux-gnu", "-c", "policy.c", "-o", file)
	if out, err := clang.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", clang.Args, err, out)
	}
	policy, err := fastpath.LoadRule(file, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	defer policy.Close()

	const audio, keyFrames, references, disposable = 64, 96, 128, 160
	for _, v := range []struct {
		priority, group uint64
		age             time.Duration
		inFlight        uint64
		want            claim.Verdict
	}{
		{disposable, 1, 0, 7_500, claim.Admitted}, // the window is not crowded
		{disposable, 1, time.Second, 0, claim.Declined},
		{audio, 1, time.Second, 9_000, claim.Admitted},
		{keyFrames, 1, time.Second, 9_000, claim.Admitted},
		{references, 1, 100 * time.Millisecond, 9_000, claim.Admitted},
		{references, 1, time.Second, 9_000, claim.Declined},
		{disposable, 1, 0, 9_000, claim.Declined},
		{disposable, 2, 0, 9_000, claim.Admitted},
	} {
		var s claim.ConnState
		s.Window.Store(10_000)
		s.InFlight.Store(v.inFlight)
		got := policy.Admit(&s, claim.Admission{Level: 128<<8 | uint32(v.priority), Group: v.group, Age: v.age})
		if got != v.want {
			t.Errorf("%+v: %v", v, got)
		}
	}
}
