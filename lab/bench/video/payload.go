package video

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"sync"
	"time"
)

// The payload of a mock object is a sequence number and the time of publication (Unix, ns), both big-endian, then
// random bytes, then a CRC-32C of these, little-endian: so the CRC of an intact whole payload is always
// payloadResidual.
const (
	payloadHead     = 16
	payloadMinimum  = payloadHead + crc32.Size
	payloadResidual = 0x48674bc7
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	filler     = sync.OnceValue(makeFiller)

	// ErrShort and ErrCorrupt are the errors of damaged mock objects.
	ErrShort   = errors.New("the payload is shorter than its head")
	ErrCorrupt = errors.New("the payload does not have its checksum")
)

// maxPayload is the largest mock object: a key frame of 8 Mbit.
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

// Digest takes a payload in pieces and keeps only a state for its verification, without a copy.
type Digest struct {
	head [payloadHead]byte
	size int
	sum  uint32 // CRC-32C
}

// Write takes the next piece.
func (d *Digest) Write(b []byte) {
	if d.size < payloadHead {
		copy(d.head[d.size:], b)
	}
	d.size += len(b)
	d.sum = crc32.Update(d.sum, castagnoli, b)
}

// Size returns the bytes of the payload so far.
func (d *Digest) Size() int { return d.size }

// Sequence returns the sequence number that a mock object has, intact or not.
func (d *Digest) Sequence() uint64 { return binary.BigEndian.Uint64(d.head[:]) }

// mock returns the sequence number and the time of publication of an intact mock object.
func (d *Digest) mock() (sequence uint64, published time.Time, err error) {
	switch {
	case d.size < payloadMinimum:
		return 0, time.Time{}, ErrShort
	case d.sum != payloadResidual:
		return 0, time.Time{}, ErrCorrupt
	}
	return d.Sequence(), time.Unix(0, int64(binary.BigEndian.Uint64(d.head[8:]))), nil
}
