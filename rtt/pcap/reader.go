package pcap

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// maxCaptured is the length of the longest packet that libpcap captures. A longer one is an error in the file, and no
// memory is allocated for it.
const maxCaptured = 262144

// Packet is one packet of a capture.
type Packet struct {
	At     time.Time
	Frame  []byte // the captured part of an Ethernet frame; valid until the next packet is read
	Length int    // of the frame on the wire
}

// record is a packet as it is in the file.
type record struct {
	at     time.Time
	link   linkType
	data   []byte
	length int
}

// A Reader reads the packets of a capture as Ethernet frames.
type Reader struct {
	next func() (record, error)
}

// NewReader returns a Reader of a pcap, pcapng or ERF file.
func NewReader(r io.Reader) (*Reader, error) {
	b := bufio.NewReaderSize(r, maxCaptured)
	magic, err := b.Peek(4)
	if err != nil {
		return nil, fmt.Errorf("read capture: %w", noEOF(err))
	}
	var c Reader
	if binary.BigEndian.Uint32(magic) == blockSection {
		p := &pcapng{file: b}
		c.next = p.next
		return &c, nil
	}
	// pcap is recognised first: ERF has no magic number, so that more than the first packet of a pipe may be needed.
	if !isClassic(magic) {
		if begin, _ := b.Peek(maxCaptured); isERF(begin) {
			e := &erf{file: b}
			c.next = e.next
			return &c, nil
		}
	}
	p, err := newClassic(b)
	if err != nil {
		return nil, fmt.Errorf("read capture: %w", err)
	}
	c.next = p.next
	return &c, nil
}

// noEOF turns the end of a file in the middle of a record into an error.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Read returns the next packet. It returns io.EOF at the end of the file, and a *LinkError for a packet of a link type
// that it does not know; the packets after that can be read.
func (c *Reader) Read() (Packet, error) {
	r, err := c.next()
	if err != nil {
		return Packet{}, err
	}
	frame, removed, ok := r.link.ethernet(r.data)
	if !ok {
		return Packet{}, &LinkError{r.link}
	}
	return Packet{r.at, frame, max(r.length-removed, len(frame))}, nil
}

// LinkError is the error of a packet whose link type is not known.
type LinkError struct{ link linkType }

func (e *LinkError) Error() string { return fmt.Sprintf("link type %d cannot be read", e.link) }
