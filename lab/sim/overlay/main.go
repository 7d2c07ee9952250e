// Command overlay writes an overlay of Go's runtime and package context, for go build -overlay. With it, a program that
// has one processor (GOMAXPROCS=1) and no collector (GOGC=off) runs a synctest bubble the same way each time.
//
//	go run ./lab/sim/overlay DIR
//
// It changes the sources of the Go that runs it:
//
//   - Goroutines of a bubble take random numbers from the bubble: for the order of select, of timers, of waiters and of
//     maps, and for math/rand. Each bubble begins with the same numbers. All threads share the numbers of the process,
//     which are the same in each run.
//   - Type assertions allocate no caches: when they do depends on a thread's random numbers.
//   - The time for which a goroutine waits for a mutex is the bubble's.
//   - Nothing takes the processor from a goroutine, whether it runs for long or is in a system call.
//   - A context that ends ends its children in the order in which they were made, and not in one of addresses.
//   - Threads exist before they are needed, so that what they allocate is allocated always, and at the same time.
//
// The program must not block in system calls, because all else stands still meanwhile.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// change replaces a text that is there once.
type change struct{ file, old, new string }

const contextFile = "../context/context.go"

var changes = []change{
	{"rand.go", "	globalRand.state.Init(*seed)\n	clear(seed[:])\n", `	clear(seed[:])
	seed[0] = 1
	globalRand.state.Init(*seed)
`},
	{"rand.go", "	mp := getg().m\n	c := &mp.chacha8\n", `	if gomaxprocs == 1 {
		state := &processRand
		if b := getg().bubble; b != nil {
			state = &b.rand
		}
		return uint64(draw(state))<<32 | uint64(draw(state))
	}
	mp := getg().m
	c := &mp.chacha8
`},
	{"iface.go", `!= 0 {
		// Only bother updating the cache ~1 in 1000 times.
		return`, `!= 0 || gomaxprocs == 1 {
		return`},
	{"iface.go", `!= 0 {
		// Only bother updating the cache ~1 in 1000 times.
		// This`, `!= 0 || gomaxprocs == 1 {
		// This`},
	{"synctest.go", "// changegstatus is called when", `var processRand uint64

//go:nosplit
func draw(state *uint64) uint32 { // as cheaprand
	*state += 0xa0761d6478bd642f
	hi, lo := math.Mul64(*state, *state^0xe7037ed1a0b428db)
	return uint32(hi ^ lo)
}

func bubbleRandn(n uint32) uint32 { return uint32((uint64(bubbleRand()) * uint64(n)) >> 32) }

func bubbleRand() uint32 {
	if b := getg().bubble; b != nil {
		return draw(&b.rand)
	}
	return cheaprand()
}

// changegstatus is called when`},
	{"synctest.go", "	now     int64  // current fake time\n", `	now     int64  // current fake time
	rand    uint64
`},
	{"synctest.go", `	"internal/runtime/atomic"` + "\n", `	"internal/runtime/atomic"
	"internal/runtime/math"
`},
	{"synctest.go", "	gp.bubble = bubble\n	defer func() {\n", `	gp.bubble = bubble
	gp.m.p.ptr().schedtick = 0 // decides when goroutines of the global queue run
	defer func() {
`},
	{contextFile, "	for child := range c.children {\n", `	for _, child := range c.made {
		if _, ok := c.children[child]; !ok {
			continue
		}
`},
	{contextFile, "	children map[canceler]struct{} //", `	made     []canceler
	children map[canceler]struct{} //`},
	{contextFile, "			p.children[child] = struct{}{}\n", `			p.children[child] = struct{}{}
			p.made = append(p.made, child)
`},
	{"select.go", "cheaprandn(", "bubbleRandn("},
	{"time.go", "cheaprand(", "bubbleRand("},
	{"sema.go", "cheaprand(", "bubbleRand("},
	{"sema.go", "func internal_sync_nanotime() int64 {\n", `func internal_sync_nanotime() int64 {
	if b := getg().bubble; b != nil {
		return b.now
	}
`},
	{"proc.go", "func retake(now int64) uint32 {\n", `func retake(now int64) uint32 {
	if gomaxprocs == 1 {
		return 0
	}
`},
	{"proc.go", "			newm(sysmon, nil, -1)\n		})\n", `			newm(sysmon, nil, -1)
			if gomaxprocs == 1 {
				for range spareThreads {
					newm(spareThread, nil, -1)
				}
				for idle := int32(0); idle < spareThreads; {
					osyield()
					lock(&sched.lock)
					idle = sched.nmidle
					unlock(&sched.lock)
				}
			}
		})
`},
	{"proc.go", "func mspinning() {\n", `const spareThreads = 8

func spareThread() {
	stopm()
	schedule()
}

func mspinning() {
`},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: overlay DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "overlay:", err)
		os.Exit(1)
	}
}

// write writes changed files and overlay.json into a directory. Files that are as they have to be keep their times, so
// that nothing is compiled again.
func write(dir string) error {
	runtime, err := runtimeSources()
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	texts, err := apply(runtime)
	if err != nil {
		return err
	}
	replace := make(map[string]string)
	for source, text := range texts {
		replace[source] = filepath.Join(dir, filepath.Base(source))
		if was, err := os.ReadFile(replace[source]); err == nil && string(was) == text {
			continue
		}
		if err := os.WriteFile(replace[source], []byte(text), 0o644); err != nil {
			return err
		}
	}
	b, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "overlay.json"), b, 0o644),
		os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module overlay\n"), 0o644)) // so that ./... leaves it out
}

// runtimeSources returns the folder of the runtime's sources.
func runtimeSources() (string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "src/runtime"), nil
}

// apply returns the changed sources, by their paths.
func apply(runtime string) (texts map[string]string, err error) {
	texts = make(map[string]string)
	for _, c := range changes {
		path := filepath.Join(runtime, c.file)
		if _, ok := texts[path]; !ok {
			b, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			texts[path] = string(b)
		}
		if n := strings.Count(texts[path], c.old); n != 1 {
			return nil, fmt.Errorf("%s: %q is there %d times, must be once: change lab/sim/overlay for this Go",
				path, c.old, n)
		}
		texts[path] = strings.Replace(texts[path], c.old, c.new, 1)
	}
	return texts, nil
}
