package fastpath

import (
	"errors"

	"github.com/cilium/ebpf"
)

// protocol is a protocol that the kernel forwards beside MoQT. Its program sees all packets that come to a device, and
// shares with the QUIC programs what a copy needs. docs/protocols.md says what another one takes.
type protocol interface {
	// start is called before a device is attached for the first time, in the network namespace of the devices.
	start() error
	// program returns the program for packets that come in.
	program() *ebpf.Program
	// awaitUnused returns when nothing but runs of programs uses what had ended before the call.
	awaitUnused()
	// copies returns how many copies were made in threads of this process, at most.
	copies() uint64
	// close ends these threads, and frees the memory. The programs are not attached any more.
	close() error
}

// loadProtocols loads the protocols that have a port.
func (k *kernel) loadProtocols(s *Settings) error {
	if s.RTPPort != 0 {
		r, err := newRTP(k, s)
		if err != nil {
			return errors.Join(err, r.close())
		}
		k.protocols = append(k.protocols, r)
	}
	return nil
}

// protocolOf returns the loaded protocol of a type.
func protocolOf[P protocol](k *kernel) (p P, ok bool) {
	for _, other := range k.protocols {
		if p, ok = other.(P); ok {
			break
		}
	}
	return p, ok
}
