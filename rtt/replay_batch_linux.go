package rtt

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"

	"sluice/rtt/bpf"
	"sluice/rtt/pcap"
)

// replayBatch is packets that the program sees in one system call: each behind its struct replayed.
type replayBatch struct {
	buf     []byte
	packets int
}

const (
	// The kernel runs XDP programs over less than a page, besides its own room.
	batchBytes = 3 << 10
	// The programs look at no byte after maxRun.
	maxRun = 2 << 10
	// The start of the data may only move to where an Ethernet header remains.
	batchEnd = 14

	replayedSize = int(unsafe.Sizeof(bpf.MonitorReplayed{}))
)

// drainEvery is the number of packets after which events are read. A packet causes at most four, of less than 256 bytes
// each: replayRing has room for twice as many.
const (
	drainEvery = 1 << 10
	replayRing = 2 << 20
)

// add reports whether there was room for the packet.
func (b *replayBatch) add(p pcap.Packet) bool {
	frame := p.Frame[:min(len(p.Frame), maxRun)]
	if len(b.buf)+replayedSize+len(frame)+batchEnd > batchBytes {
		return false
	}
	b.buf = binary.NativeEndian.AppendUint64(b.buf, uint64(p.At.UnixNano()))
	b.buf = binary.NativeEndian.AppendUint32(b.buf, uint32(p.Length))
	b.buf = binary.NativeEndian.AppendUint32(b.buf, uint32(len(frame)))
	b.buf = append(b.buf, frame...)
	b.packets++
	return true
}

// run shows the packets to the program, and empties the batch.
func (b *replayBatch) run(program *ebpf.Program) error {
	if b.packets == 0 {
		return nil
	}
	seen, err := program.Run(&ebpf.RunOptions{Data: append(b.buf, make([]byte, batchEnd)...)})
	if err == nil && int(seen) != b.packets {
		err = fmt.Errorf("the program saw %d of %d packets", seen, b.packets)
	}
	b.buf, b.packets = b.buf[:0], 0
	return err
}

// cutHeader reports whether the capture lacks a part of the frame's IP header.
func cutHeader(frame []byte) bool {
	const etherHeader = 14
	if len(frame) < etherHeader {
		return true
	}
	switch binary.BigEndian.Uint16(frame[etherHeader-2:]) {
	case 0x0800:
		return len(frame) < etherHeader+20
	case 0x86dd:
		return len(frame) < etherHeader+40
	}
	return false
}
