package fastpath

// Streams counts the streams that the kernel knows of.
func (f *FastPath) Streams() int {
	return len(keysOf[kernelDownstreamKey, uint32](f.kernel.ingress.Downstreams, func(*kernelDownstreamKey) bool { return true }))
}
