package server

import (
	"runtime"
	"runtime/debug"
)

// giveBack gives memory back to the system that the process does not need now: garbage, and pages of the program's file
// that can be read again.
func giveBack() {
	debug.FreeOSMemory()
	dropProgram()
}

// afterCollections calls f after each garbage collection. That reads tables about nearly all code: 7 MiB of the
// program's file, which nothing else needs.
func afterCollections(f func()) {
	unused := new([16]byte)
	runtime.AddCleanup(unused, func(f func()) {
		f()
		afterCollections(f)
	}, f)
}
