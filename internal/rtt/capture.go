package rtt

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// maxCaptured is the length of the longest packet that can be captured, by libpcap too. What claims to be longer is an
// error in the file, and must not take memory.
const maxCaptured = 262144

// captured is one packet of a capture.
type captured struct {
	at     time.Time
	frame  []byte // an Ethernet frame, as far as it was captured; valid until the next packet is read
	length int    // of the frame on the wire
}

// record is a packet as a file has it.
type record struct {
	at     time.Time
	link   linkType
	data   []byte
	length int
}

// capture reads the packets of a file as Ethernet frames.
type capture struct {
	next func() (record, error)
}

func newCapture(r io.Reader) (*capture, error) {
	b := bufio.NewReaderSize(r, maxCaptured)
	magic, err := b.Peek(4)
	if err != nil {
		return nil, fmt.Errorf("read capture: %w", noEOF(err))
	}
	var c capture
	if binary.BigEndian.Uint32(magic) == blockSection {
		p := &pcapng{file: b}
		c.next = p.next
		return &c, nil
	}
	p, err := newPcap(b)
	if err != nil {
		return nil, fmt.Errorf("read capture: %w", err)
	}
	c.next = p.next
	return &c, nil
}

// noEOF turns the end of a file in the middle of something into an error.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// read returns the next packet, io.EOF at the end, or a *linkError if its kind of link cannot be read.
func (c *capture) read() (captured, error) {
	r, err := c.next()
	if err != nil {
		return captured{}, err
	}
	frame, removed, ok := r.link.ethernet(r.data)
	if !ok {
		return captured{}, &linkError{r.link}
	}
	return captured{r.at, frame, max(r.length-removed, len(frame))}, nil
}

// linkError is a packet of a link that cannot be read.
type linkError struct{ link linkType }

func (e *linkError) Error() string { return fmt.Sprintf("link type %d cannot be read", e.link) }

// Lengths of frames that the kernel runs programs over, and that have all that these look at.
const (
	minRun = 15
	maxRun = 2048
)

// runnable gives a frame such a length.
func runnable(frame []byte) []byte {
	if len(frame) < minRun {
		return append(frame[:len(frame):len(frame)], make([]byte, minRun-len(frame))...)
	}
	return frame[:min(len(frame), maxRun)]
}
