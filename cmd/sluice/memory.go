package main

import (
	"os"
	"runtime"
	"runtime/debug"
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
