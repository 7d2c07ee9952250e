package cmaf

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"
)

var videoCodecs = []struct {
	box  string
	size int // number of bytes that name reads
	name func(entry string, config []byte) string
}{
	{"avcC", 4, avcName},
	{"hvcC", 13, hevcName},
	{"av1C", 3, av1Name},
	{"vpcC", 7, vpName},
}

// avcName returns the name by RFC 6381 §3.3.
func avcName(entry string, c []byte) string {
	return fmt.Sprintf("%s.%02x%02x%02x", entry, c[1], c[2], c[3])
}

// hevcName returns the name by ISO/IEC 14496-15 annex E.3.
func hevcName(entry string, c []byte) string {
	space := []string{"", "A", "B", "C"}[c[1]>>6]
	tier := "L"
	if c[1]&0x20 != 0 {
		tier = "H"
	}
	name := fmt.Sprintf("%s.%s%d.%X.%s%d", entry, space, c[1]&31, bits.Reverse32(binary.BigEndian.Uint32(c[2:])), tier,
		c[12])
	constraints := strings.TrimRight(string(c[6:12]), "\x00")
	for i := range len(constraints) {
		name += fmt.Sprintf(".%X", constraints[i])
	}
	return name
}

// av1Name returns the name by the AV1 Codec ISO Media File Format Binding §5.
func av1Name(entry string, c []byte) string {
	tier, depth := "M", 8
	if c[2]&0x80 != 0 {
		tier = "H"
	}
	if c[2]&0x40 != 0 {
		depth = 10
		if c[2]&0x20 != 0 {
			depth = 12
		}
	}
	return fmt.Sprintf("%s.%d.%02d%s.%02d", entry, c[1]>>5, c[1]&31, tier, depth)
}

// vpName returns the name by the VP Codec ISO Media File Format Binding. The box starts with version and flags.
func vpName(entry string, c []byte) string {
	return fmt.Sprintf("%s.%02d.%02d.%02d", entry, c[4], c[5], c[6]>>4)
}

// descriptor returns the body of the first descriptor in b if it has that tag.
func descriptor(b []byte, tag byte) []byte {
	if len(b) < 2 || b[0] != tag {
		return nil
	}
	size, at := 0, 1
	for ; at < min(len(b), 5); at++ { // at most four bytes of seven bits
		size = size<<7 | int(b[at]&0x7f)
		if b[at]&0x80 == 0 {
			at++
			break
		}
	}
	b = b[at:]
	return b[:min(size, len(b))]
}
