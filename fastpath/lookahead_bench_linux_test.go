package fastpath

import (
	"fmt"
	"testing"

	"sluice/claim"
	"sluice/fastpath/bpf"
)

// BenchmarkFill makes the key stream of a packet.
func BenchmarkFill(b *testing.B) {
	key := newStreamKey((*claim.PacketKeys)(randomPacketKeys()))
	for _, n := range []int{200, 900, 1344} {
		b.Run(fmt.Sprintf("%dB", n), func(b *testing.B) {
			slot, number := new(bpf.KeyStream), uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				key.fill(slot, number, n)
				number++
			}
		})
	}
}
