// Package server puts the parts of a relay together: a UDP port, the media sender's loop, the fast path in the kernel
// and the MoQT relay itself.
package server
