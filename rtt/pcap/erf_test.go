package pcap

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/rtt/internal/wire"
)

// erfOf returns a record of ERF with a number of extension headers, padded to a multiple of eight bytes.
func erfOf(kind byte, at time.Time, extensions, wire int, payload []byte) []byte {
	ticks := uint64(at.Unix())<<32 | uint64(at.Nanosecond())<<32/uint64(time.Second)
	b := binary.LittleEndian.AppendUint64(nil, ticks)
	b = append(b, kind, 4, 0, 0, 0, 0, byte(wire>>8), byte(wire))
	for i := range extensions {
		b[8] |= 0x80
		header := [8]byte{12}
		if i < extensions-1 {
			header[0] |= 0x80
		}
		b = append(b, header[:]...)
	}
	b = append(b, payload...)
	b = append(b, make([]byte, -len(b)&7)...)
	binary.BigEndian.PutUint16(b[10:], uint16(len(b)))
	return b
}

// erfFrame is a record of an Ethernet frame with its checksum, after two bytes of padding.
func erfFrame(kind byte, at time.Time, extensions int, frame []byte) []byte {
	payload := slices.Concat([]byte{0, 0}, frame, []byte{1, 2, 3, 4})
	return erfOf(kind, at, extensions, len(frame)+4, payload)
}

func TestERF(t *testing.T) {
	at := time.Unix(1_700_000_000, 500_000_000).UTC()
	frame := wire.Frame(packet4)
	file := slices.Concat(
		erfFrame(2, at, 0, frame),
		erfOf(48, at, 0, 0, make([]byte, 24)),
		erfFrame(20, at.Add(time.Second), 2, frame),
		erfOf(1, at, 0, 60, make([]byte, 60)), // HDLC
		erfOf(23, at.Add(-time.Second), 1, len(packet6), packet6),
		erfOf(11, at, 0, 1504, slices.Concat([]byte{0, 0}, frame[:40])),
	)
	packets, unknown := rest(t, file)
	require.Equal(t, 1, unknown)
	raw := append(make([]byte, 12), wire.Frame(packet6)[12:]...)
	cut := packets[3]
	cut.Frame = cut.Frame[:40] // the record's padding follows, which cannot be told from the frame
	require.Equal(t, []Packet{
		{at, frame, len(frame)},
		{at.Add(time.Second), frame, len(frame)},
		{at.Add(-time.Second), raw, len(raw)},
		{at, frame[:40], 1500},
	}, append(packets[:3], cut))
}

// TestERFPaddingWithoutTime has padding records with no time, at the begin and between packets.
func TestERFPaddingWithoutTime(t *testing.T) {
	at := time.Unix(1_700_000_000, 0).UTC()
	frame, padding := wire.Frame(packet4), erfOf(48, time.Unix(0, 0), 0, 0, make([]byte, 24))
	packets, _ := rest(t, slices.Concat(padding, erfFrame(2, at, 0, frame), padding, erfFrame(2, at, 0, frame)))
	require.Equal(t, []Packet{{at, frame, len(frame)}, {at, frame, len(frame)}}, packets)
	require.False(t, isERF(slices.Concat(erfFrame(2, at, 0, frame), padding,
		erfFrame(2, at.Add(2*time.Hour), 0, frame))), "the times of packets are compared across padding")
}

func TestERFRefuses(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	good := erfFrame(2, at, 0, wire.Frame(packet4))
	long := slices.Concat(good, bytes.Repeat(erfOf(48, at, 0, 0, nil), erfChecked))
	short, tiny := erfOf(2, at, 0, 60, nil), slices.Clone(good)
	tiny[11] = 8
	extended := erfOf(2, at, 0, 60, nil)
	extended[8] |= 0x80
	for want, file := range map[string][]byte{
		"read capture: neither pcap, nor pcapng, nor ERF": good[:len(good)-1],
		"unexpected EOF": slices.Concat(good, good[:len(good)-1]),
		"a record of 8 bytes: at least 16 are its header": append(long, tiny...),
		"a record that ends in its headers":               append(slices.Clone(good), short...),
	} {
		require.EqualError(t, readError(file), want)
	}
	require.EqualError(t, readError(append(slices.Clone(good), extended...)), "a record that ends in its headers")
	for name, at := range map[string]time.Time{"later": at.Add(2 * time.Hour), "earlier": at.Add(-2 * time.Hour)} {
		require.False(t, isERF(append(slices.Clone(good), erfFrame(2, at, 0, wire.Frame(packet4))...)), name)
	}
}
