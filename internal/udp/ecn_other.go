//go:build !linux

package udp

import "net/netip"

// appendECN returns nil: packets cannot be marked.
func appendECN([]byte, netip.Addr, byte) []byte { return nil }
