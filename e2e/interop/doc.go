// Package interop tests the relay with the MoQT clients of others, with relays of others as its upstream relays, and
// with a browser; and sluice rtt with programs that read what it writes. "make interop" installs and runs them.
package interop
