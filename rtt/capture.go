package rtt

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
)

// capture reads the packets of a pcap or pcapng file as Ethernet frames.
type capture struct {
	next func() ([]byte, gopacket.CaptureInfo, error)
	link func(gopacket.CaptureInfo) layers.LinkType
}

// captured is one packet of a capture.
type captured struct {
	at     time.Time
	frame  []byte // as far as it was captured; valid until the next packet is read
	length int    // of the frame on the wire
}

// pcapngMagic starts a pcapng file, in either byte order.
const pcapngMagic = 0x0a0d0d0a

func newCapture(r io.Reader) (*capture, error) {
	b := bufio.NewReaderSize(r, 1<<20)
	magic, err := b.Peek(4)
	if err != nil {
		return nil, fmt.Errorf("read capture: %w", noEOF(err))
	}
	if binary.BigEndian.Uint32(magic) == pcapngMagic {
		return newPcapng(b)
	}
	p, err := pcapgo.NewReader(b)
	if err != nil {
		return nil, fmt.Errorf("read capture: neither pcap nor pcapng: %w", noEOF(err))
	}
	return &capture{
		next: p.ZeroCopyReadPacketData,
		link: func(gopacket.CaptureInfo) layers.LinkType { return p.LinkType() },
	}, nil
}

func newPcapng(r io.Reader) (*capture, error) {
	p, err := pcapgo.NewNgReader(r, pcapgo.NgReaderOptions{WantMixedLinkType: true, SkipUnknownVersion: true})
	if err != nil {
		return nil, fmt.Errorf("read capture: %w", noEOF(err))
	}
	return &capture{next: p.ZeroCopyReadPacketData, link: func(ci gopacket.CaptureInfo) layers.LinkType {
		i, err := p.Interface(ci.InterfaceIndex)
		if err != nil {
			return layers.LinkType(0xff)
		}
		return i.LinkType
	}}, nil
}

// noEOF turns the end of a file that has not begun properly into an error.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// read returns the next packet, io.EOF at the end, or a *linkError if its kind of link cannot be read.
func (c *capture) read() (captured, error) {
	data, ci, err := c.next()
	if err != nil {
		return captured{}, err
	}
	link := c.link(ci)
	frame, removed, ok := asEthernet(link, data)
	if !ok {
		return captured{}, &linkError{link}
	}
	return captured{ci.Timestamp, frame, max(ci.Length-removed, len(frame))}, nil
}

// linkError is a packet of a link that cannot be read.
type linkError struct{ link layers.LinkType }

func (e *linkError) Error() string {
	return fmt.Sprintf("link type %d cannot be read", uint8(e.link))
}

// Link types of https://www.tcpdump.org/linktypes.html that gopacket does not name.
const (
	linkRawBSD    = 12
	linkRawOther  = 14
	linkIPv4      = 228
	linkIPv6      = 229
	linkLoopBytes = 4
	sllHeader     = 16 // with the EtherType in its last two bytes
	etherHeader   = 14
)

// asEthernet replaces another link header by that of Ethernet. It returns by how much that changed the length.
func asEthernet(link layers.LinkType, data []byte) (frame []byte, removed int, ok bool) {
	switch link {
	case layers.LinkTypeEthernet:
		return data, 0, true
	case layers.LinkTypeRaw, linkRawBSD, linkRawOther, linkIPv4, linkIPv6:
		return ethernet(ipEtherType(data), data), -etherHeader, true
	case layers.LinkTypeNull, layers.LinkTypeLoop:
		data = data[min(linkLoopBytes, len(data)):]
		return ethernet(ipEtherType(data), data), linkLoopBytes - etherHeader, true
	case layers.LinkTypeLinuxSLL:
		if len(data) < sllHeader {
			return nil, 0, false
		}
		etherType := binary.BigEndian.Uint16(data[sllHeader-2:])
		return ethernet(etherType, data[sllHeader:]), sllHeader - etherHeader, true
	}
	return nil, 0, false
}

func ethernet(etherType uint16, payload []byte) []byte {
	b := make([]byte, etherHeader-2, etherHeader+len(payload))
	return append(binary.BigEndian.AppendUint16(b, etherType), payload...)
}

// ipEtherType is the EtherType of an IP packet, by the version that it names.
func ipEtherType(packet []byte) uint16 {
	if len(packet) > 0 && packet[0]>>4 == 6 {
		return uint16(layers.EthernetTypeIPv6)
	}
	return uint16(layers.EthernetTypeIPv4)
}
