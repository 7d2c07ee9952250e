package media

import (
	"sync/atomic"

	"sluice/claim"
	"sluice/internal/packet"
)

// keys protects packets, and counts how many a key has protected. All but due is guarded by the sender's lock.
type keys struct {
	sealer packet.Sealer
	suite  uint16      // of TLS
	first  uint64      // lowest packet number of the current key generation
	limit  uint64      // packets that it may protect
	due    atomic.Bool // quic-go should update the keys; needs no lock
}

// install adds the key of a generation, and then begins to use it.
func (k *keys) install(generation uint64, suite uint16, key *packet.Key, state *claim.ConnState) {
	k.suite = suite
	k.sealer.Install(generation, key)
	k.limit = key.Limit()
	if generation > 0 {
		// From here on packet numbers ask for the key, which is installed.
		k.first = state.NextPN.Add(1<<claim.GenerationShift) & claim.NumberMask
	}
	k.due.Store(false)
}

// allow reports whether a packet with that number may be protected.
func (k *keys) allow(number uint64) bool { return k.sealer.Ready() && number-k.first < k.limit }

// seal encrypts a packet, and asks for a key update when half of the limit is reached. At the end of the turn, sealer
// protects the headers of all.
func (k *keys) seal(p []byte, header int, number, generation uint64) []byte {
	if number-k.first >= k.limit/2 {
		k.due.Store(true)
	}
	return k.sealer.Seal(p, header, number, generation)
}
