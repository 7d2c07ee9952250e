package bpf

import "unsafe"

// Quic returns what a flow of QUIC has in the place of the state of TCP.
func (f *MonitorFlow) Quic() *MonitorQuic { return (*MonitorQuic)(unsafe.Pointer(&f.Tcp)) }
