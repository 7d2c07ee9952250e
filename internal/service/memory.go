package service

import (
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"sluice/internal/memory"
)

// garbagePercent is how much garbage there may be in memory, in percent of the memory in use. Go's default is 100. A
// relay makes little garbage: with 10 subscribers, a collection every few seconds.
const garbagePercent = 50

// SampleNothing stops Go from noting where memory is allocated, in a table that nobody can see unless profiles are
// served.
func SampleNothing() { runtime.MemProfileRate = 0 }

// CollectEarly makes Go collect garbage earlier, unless somebody has chosen when.
func CollectEarly() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
}

// OneProcessor makes Go run one goroutine at a time, unless somebody has chosen by GOMAXPROCS. A program that does a
// little at intervals pays for each further processor: Go wakes a thread for it, which looks for work. One goroutine
// does not hold up others for long: Go gives its processor away while a system call blocks, and interrupts a goroutine
// that has run for 10 ms.
func OneProcessor() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
}

// The times between which KeepSmall gives memory back: the first lets the work begin, and each is twice the last.
const (
	firstGiveBack = 2 * time.Second
	lastGiveBack  = time.Minute
)

// KeepSmall gives back memory that only the start has needed, and at intervals pages that garbage collections read.
func KeepSmall() (stop func()) {
	memory.GiveBack()
	wait := firstGiveBack
	next := time.NewTimer(wait)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-next.C:
				memory.DropProgram()
				wait = min(2*wait, lastGiveBack)
				next.Reset(wait)
			case <-done:
				return
			}
		}
	}()
	return func() {
		next.Stop()
		close(done)
	}
}
