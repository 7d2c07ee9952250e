package memory

import (
	"runtime"
	"runtime/debug"
)

// GiveBack gives memory back to the system that the process does not need now: garbage, and pages of the program's file
// that can be read again.
func GiveBack() {
	debug.FreeOSMemory()
	DropProgram()
}

// AfterCollections calls f after each garbage collection. That reads tables about nearly all code: 7 MiB of the
// program's file, which nothing else needs.
func AfterCollections(f func()) {
	unused := new([16]byte)
	runtime.AddCleanup(unused, func(f func()) {
		f()
		AfterCollections(f)
	}, f)
}
