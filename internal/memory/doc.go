// Package memory gives memory back to the system that a process does not need while it is calm.
package memory
