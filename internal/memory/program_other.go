//go:build !linux

package memory

// DropProgram does nothing here.
func DropProgram() {}
