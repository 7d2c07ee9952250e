//go:build !linux

package server

// dropProgram needs madvise(2) as Linux has it.
func dropProgram() {}
