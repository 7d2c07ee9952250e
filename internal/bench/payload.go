package bench

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"sync"
	"time"
)

// The payload of a mock object: a sequence number and the time of publication (Unix, ns), both big-endian, random bytes, and a CRC-32C of
// all that, little-endian: then the CRC of a whole payload that is intact is always the same.
const (
	payloadHead     = 16
	payloadMinimum  = payloadHead + crc32.Size
	payloadResidual = 0x48674bc7
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	filler     = sync.OnceValue(makeFiller)

	errPayloadShort   = errors.New("the payload is shorter than its head")
	errPayloadCorrupt = errors.New("the payload has another checksum than it says")
)

// maxPayload bounds mock objects: a key frame of 8 Mbit.
const maxPayload = 1 << 20

func makeFiller() []byte {
	b := make([]byte, maxPayload)
	r := rand.NewChaCha8([32]byte{})
	r.Read(b) // never fails
	return b
}

// appendPayload appends a mock object of a size, at least payloadMinimum and at most maxPayload.
func appendPayload(b []byte, sequence uint64, published time.Time, size int) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint64(b, sequence)
	b = binary.BigEndian.AppendUint64(b, uint64(published.UnixNano()))
	from := int(sequence*4093) % (maxPayload - size + 1) // so that two objects are not alike
	b = append(b, filler()[from:from+size-payloadMinimum]...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// digest takes a payload in pieces and keeps what is needed to verify it, without a copy.
type digest struct {
	head [payloadHead]byte
	size int
	sum  uint32 // CRC-32C
}

func (d *digest) write(b []byte) {
	if d.size < payloadHead {
		copy(d.head[d.size:], b)
	}
	d.size += len(b)
	d.sum = crc32.Update(d.sum, castagnoli, b)
}

// mock returns what a mock object says, or why it is none or damaged.
func (d *digest) mock() (sequence uint64, published time.Time, err error) {
	switch {
	case d.size < payloadMinimum:
		return 0, time.Time{}, errPayloadShort
	case d.sum != payloadResidual:
		return 0, time.Time{}, errPayloadCorrupt
	}
	return binary.BigEndian.Uint64(d.head[:]), time.Unix(0, int64(binary.BigEndian.Uint64(d.head[8:]))), nil
}
