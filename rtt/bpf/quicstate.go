package bpf

import "unsafe"

// Quic returns the state of a QUIC flow, which shares its memory with the state of a TCP flow.
func (f *MonitorFlow) Quic() *MonitorQuic { return (*MonitorQuic)(unsafe.Pointer(&f.Tcp)) }
