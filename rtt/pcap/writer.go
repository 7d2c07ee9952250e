package pcap

import (
	"encoding/binary"
	"io"
)

// A Writer writes Ethernet frames as a pcap file with nanoseconds. It does not buffer.
type Writer struct {
	file io.Writer
	buf  []byte
}

// NewWriter writes the header of a file.
func NewWriter(file io.Writer) (*Writer, error) {
	h := binary.LittleEndian.AppendUint32(nil, pcapNanoseconds)
	h = binary.LittleEndian.AppendUint16(h, 2) // version 2.4
	h = binary.LittleEndian.AppendUint16(h, 4)
	h = append(h, make([]byte, 8)...)
	h = binary.LittleEndian.AppendUint32(h, maxCaptured)
	h = binary.LittleEndian.AppendUint32(h, uint32(linkEthernet))
	_, err := file.Write(h)
	return &Writer{file: file}, err
}

// Write adds a packet.
func (w *Writer) Write(p Packet) error {
	w.buf = binary.LittleEndian.AppendUint32(w.buf[:0], uint32(p.At.Unix()))
	w.buf = binary.LittleEndian.AppendUint32(w.buf, uint32(p.At.Nanosecond()))
	w.buf = binary.LittleEndian.AppendUint32(w.buf, uint32(len(p.Frame)))
	w.buf = binary.LittleEndian.AppendUint32(w.buf, uint32(p.Length))
	w.buf = append(w.buf, p.Frame...)
	_, err := w.file.Write(w.buf)
	return err
}
