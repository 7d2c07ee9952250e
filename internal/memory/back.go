package memory

import "runtime/debug"

// GiveBack gives memory back to the system that the process does not need now: garbage, and pages of the program's file
// that can be read again.
func GiveBack() {
	debug.FreeOSMemory()
	DropProgram()
}
