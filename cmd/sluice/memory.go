package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"sluice/internal/memory"
)

// garbagePercent is how much garbage there may be in memory, in percent of what is in use. Go's default is 100. A relay
// makes little garbage: with 10 subscribers, a collection every few seconds.
const garbagePercent = 50

// sampleNothing stops Go from noting where memory is allocated, for which it has a table that nobody can see unless
// profiles are served.
func sampleNothing() { runtime.MemProfileRate = 0 }

// collectEarly makes Go collect garbage earlier, unless somebody has chosen when.
func collectEarly() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
}

// keepSmall gives back what only the start has needed, and then at intervals what garbage collections read.
func keepSmall() (stop func()) {
	memory.GiveBack()
	every := time.NewTicker(time.Minute)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-every.C:
				memory.DropProgram()
			case <-done:
				return
			}
		}
	}()
	return func() {
		every.Stop()
		close(done)
	}
}
