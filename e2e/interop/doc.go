// Package interop tests the relay with the MoQT clients of others and with a browser. "make interop" installs and runs
// them.
package interop
