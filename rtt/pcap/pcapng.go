package pcap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"time"
)

// Block types of pcapng (draft-ietf-opsawg-pcapng §4).
const (
	blockInterface = 1
	blockObsolete  = 2 // "Packet Block"
	blockEnhanced  = 6
	blockSection   = 0x0a0d0d0a // the same in both byte orders
)

const (
	byteOrderMagic = 0x1a2b3c4d
	blockHeader    = 8
	blockTrailer   = 4
	enhancedHeader = 20
	// A block holds a packet and its options. No writer makes 64 KiB of options.
	maxBlock = maxCaptured + 1<<16

	optionEnd        = 0
	optionResolution = 9
	optionOffset     = 14
)

// pcapng reads a pcapng file. It skips blocks other than packets with a time.
type pcapng struct {
	file       io.Reader
	order      binary.ByteOrder
	interfaces []pcapngInterface
	buf        []byte
}

type pcapngInterface struct {
	link       linkType
	resolution byte  // negative exponent of 10, or of 2 if the upper bit is set
	offset     int64 // s
}

func (p *pcapng) next() (record, error) {
	for {
		kind, body, err := p.block()
		if err != nil {
			return record{}, err
		}
		switch kind {
		case blockSection:
			p.interfaces = nil
		case blockInterface:
			p.interfaces = append(p.interfaces, p.parseInterface(body))
		case blockEnhanced, blockObsolete:
			return p.packet(kind, body)
		}
	}
}

// block reads one block. A section header sets the byte order for itself and the blocks after it.
func (p *pcapng) block() (kind uint32, body []byte, err error) {
	var h [blockHeader + 4]byte
	if n, err := io.ReadFull(p.file, h[:]); n == 0 && errors.Is(err, io.EOF) {
		return 0, nil, io.EOF
	} else if err != nil {
		return 0, nil, noEOF(err)
	}
	if binary.BigEndian.Uint32(h[:]) == blockSection {
		if p.order, err = orderOf(h[blockHeader:]); err != nil {
			return 0, nil, err
		}
	}
	length := p.order.Uint32(h[4:])
	if length < uint32(len(h)) || length > maxBlock || length%4 != 0 {
		return 0, nil, fmt.Errorf("a block of %d bytes", length)
	}
	p.buf = append(append(p.buf[:0], h[blockHeader:]...), make([]byte, int(length)-len(h))...)
	if _, err := io.ReadFull(p.file, p.buf[4:]); err != nil {
		return 0, nil, noEOF(err)
	}
	return p.order.Uint32(h[:]), p.buf[:len(p.buf)-blockTrailer], nil
}

func orderOf(magic []byte) (binary.ByteOrder, error) {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		if order.Uint32(magic) == byteOrderMagic {
			return order, nil
		}
	}
	return nil, errors.New("a section of unknown byte order")
}

func (p *pcapng) parseInterface(body []byte) pcapngInterface {
	i := pcapngInterface{resolution: 6} // microseconds, unless an option says otherwise
	if len(body) < 8 {
		return pcapngInterface{link: 0xffff}
	}
	i.link = linkType(p.order.Uint16(body))
	for o := body[8:]; len(o) >= 4; {
		code, n := p.order.Uint16(o), int(p.order.Uint16(o[2:]))
		if o = o[4:]; code == optionEnd || n > len(o) {
			break
		}
		switch {
		case code == optionResolution && n == 1:
			i.resolution = o[0]
		case code == optionOffset && n == 8:
			i.offset = int64(p.order.Uint64(o))
		}
		o = o[min((n+3)&^3, len(o)):]
	}
	return i
}

// packet reads an enhanced packet block, or the obsolete packet block, whose interface number is shorter.
func (p *pcapng) packet(kind uint32, body []byte) (record, error) {
	if len(body) < enhancedHeader {
		return record{}, errors.New("a packet block that is too short")
	}
	id := p.order.Uint32(body)
	if kind == blockObsolete {
		id = uint32(p.order.Uint16(body))
	}
	if id >= uint32(len(p.interfaces)) {
		return record{}, fmt.Errorf("a packet of interface %d, which is not described", id)
	}
	ticks := uint64(p.order.Uint32(body[4:]))<<32 | uint64(p.order.Uint32(body[8:]))
	n := p.order.Uint32(body[12:])
	if n > uint32(len(body)-enhancedHeader) {
		return record{}, fmt.Errorf("a packet of %d bytes in a shorter block", n)
	}
	i := &p.interfaces[id]
	return record{i.time(ticks), i.link, body[enhancedHeader:][:n], int(p.order.Uint32(body[16:]))}, nil
}

// time converts a time stamp in the interface's resolution.
func (i *pcapngInterface) time(ticks uint64) time.Time {
	perSecond := uint64(1)
	if i.resolution&0x80 != 0 {
		perSecond <<= min(i.resolution&0x7f, 63)
	} else {
		for range min(i.resolution, 19) {
			perSecond *= 10
		}
	}
	hi, lo := bits.Mul64(ticks%perSecond, uint64(time.Second))
	ns, _ := bits.Div64(hi, lo, perSecond)
	return time.Unix(int64(ticks/perSecond)+i.offset, int64(ns)).UTC()
}
