package pcap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// Magic numbers of pcap files (draft-ietf-opsawg-pcap §4), which show the byte order too.
const (
	pcapMicroseconds = 0xa1b2c3d4
	pcapNanoseconds  = 0xa1b23c4d
)

const (
	pcapHeader       = 24
	pcapRecordHeader = 16
)

// classic reads a pcap file.
type classic struct {
	file  io.Reader
	order binary.ByteOrder
	unit  time.Duration // of fractions of a second
	link  linkType
	buf   []byte
}

func newClassic(file io.Reader) (*classic, error) {
	var h [pcapHeader]byte
	if _, err := io.ReadFull(file, h[:]); err != nil {
		return nil, noEOF(err)
	}
	p := &classic{file: file}
	p.order, p.unit = classicOrder(h[:])
	if p.order == nil {
		return nil, errors.New("neither pcap, nor pcapng, nor ERF")
	}
	p.link = linkType(p.order.Uint32(h[20:])) // the upper half holds other fields
	return p, nil
}

// classicOrder returns the byte order and the unit of time that a magic number says, or nil.
func classicOrder(magic []byte) (binary.ByteOrder, time.Duration) {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		switch order.Uint32(magic) {
		case pcapMicroseconds:
			return order, time.Microsecond
		case pcapNanoseconds:
			return order, time.Nanosecond
		}
	}
	return nil, 0
}

func isClassic(magic []byte) bool {
	order, _ := classicOrder(magic)
	return order != nil
}

func (p *classic) next() (record, error) {
	var h [pcapRecordHeader]byte
	if n, err := io.ReadFull(p.file, h[:]); n == 0 && errors.Is(err, io.EOF) {
		return record{}, io.EOF
	} else if err != nil {
		return record{}, noEOF(err)
	}
	n := p.order.Uint32(h[8:])
	if n > maxCaptured {
		return record{}, fmt.Errorf("a packet of %d bytes: at most %d can be captured", n, maxCaptured)
	}
	p.buf = append(p.buf[:0], make([]byte, n)...)
	if _, err := io.ReadFull(p.file, p.buf); err != nil {
		return record{}, noEOF(err)
	}
	at := time.Unix(int64(p.order.Uint32(h[:])), int64(p.order.Uint32(h[4:]))*int64(p.unit)).UTC()
	return record{at, p.link, p.buf, int(p.order.Uint32(h[12:]))}, nil
}
