package pcap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// Types of ERF records.
const (
	erfEthernet          = 2
	erfColorEthernet     = 11
	erfDSMColorEthernet  = 16
	erfColorHashEthernet = 20
	erfIPv4              = 22
	erfIPv6              = 23
	erfLast              = 28 // types between these have other links, or no packet
	erfPadding           = 48
)

const (
	erfHeader          = 16
	erfExtensionHeader = 8
	erfMoreHeaders     = 0x80 // of a type: another header follows
	erfEthernetPadding = 2    // before an Ethernet frame
	erfChecksum        = 4    // of an Ethernet frame, which its length on the wire contains
	erfUnknownLink     = linkType(0xffff)
)

// erf reads a file of Endace's Extensible Record Format: records without a file header.
type erf struct {
	file io.Reader
	buf  []byte
}

// erfChecked is the number of records by which a file is recognised, and erfApart how far apart the times of two are:
// the interfaces of a card may not be in order.
const (
	erfChecked = 8
	erfApart   = time.Hour
)

// isERF reports whether a file that begins with these bytes has records of ERF. The last record may be cut.
func isERF(begin []byte) bool {
	var last time.Time
	for i := range erfChecked {
		if len(begin) < erfHeader {
			return i > 0
		}
		kind, length, at := begin[8]&^erfMoreHeaders, int(binary.BigEndian.Uint16(begin[10:])), erfTime(begin)
		known := kind > 0 && kind <= erfLast || kind == erfPadding
		if kind == erfPadding {
			at = last // padding need not have a time
		}
		if !known || length < erfHeader || !last.IsZero() && at.Sub(last).Abs() > erfApart {
			return false
		}
		if length > len(begin) {
			return i > 0
		}
		begin, last = begin[length:], at
	}
	return true
}

// erfTime returns the time of a record: seconds in units of 2⁻³² s, the only field in little-endian order.
func erfTime(record []byte) time.Time {
	ticks := binary.LittleEndian.Uint64(record)
	return time.Unix(int64(ticks>>32), int64(ticks&0xffffffff*uint64(time.Second)>>32)).UTC()
}

func (e *erf) next() (record, error) {
	for {
		var h [erfHeader]byte
		if n, err := io.ReadFull(e.file, h[:]); n == 0 && errors.Is(err, io.EOF) {
			return record{}, io.EOF
		} else if err != nil {
			return record{}, noEOF(err)
		}
		length := int(binary.BigEndian.Uint16(h[10:]))
		if length < erfHeader {
			return record{}, fmt.Errorf("a record of %d bytes: at least %d are its header", length, erfHeader)
		}
		e.buf = append(e.buf[:0], make([]byte, length-erfHeader)...)
		if _, err := io.ReadFull(e.file, e.buf); err != nil {
			return record{}, noEOF(err)
		}
		if h[8]&^erfMoreHeaders != erfPadding {
			return erfRecord(h[:], e.buf)
		}
	}
}

// erfRecord returns the packet of a record. The record may be longer than the packet: its length is a multiple of
// eight.
func erfRecord(h, body []byte) (record, error) {
	for more := h[8]&erfMoreHeaders != 0; more; {
		if len(body) < erfExtensionHeader {
			return record{}, errors.New("a record that ends in its headers")
		}
		more = body[0]&erfMoreHeaders != 0
		body = body[erfExtensionHeader:]
	}
	r := record{at: erfTime(h), link: erfUnknownLink, length: int(binary.BigEndian.Uint16(h[14:]))}
	switch h[8] &^ erfMoreHeaders {
	case erfEthernet, erfColorEthernet, erfDSMColorEthernet, erfColorHashEthernet:
		if len(body) < erfEthernetPadding {
			return record{}, errors.New("a record that ends in its headers")
		}
		r.link, r.length = linkEthernet, max(r.length-erfChecksum, 0)
		body = body[erfEthernetPadding:]
	case erfIPv4, erfIPv6:
		r.link = linkRaw
	}
	r.data = body[:min(len(body), r.length)]
	return r, nil
}
