package chaos

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/stretchr/testify/require"
)

// Payloads of the broadcasts of RTSP.
const (
	payloadSize = 900
	groupSize   = 50 // packets
)

// framePayload is the n-th frame of a broadcast, a slice of H.264. Its bytes follow from its number.
func framePayload(n uint32, isLast bool) []byte {
	b := make([]byte, 0, payloadSize)
	b = append(b, 0x41, 0x80)
	if n%groupSize == 1 {
		b[0] = 0x65
	}
	b = binary.BigEndian.AppendUint32(b, n)
	b = append(b, 0)
	if isLast {
		b[6] = 1
	}
	for random := rand.New(rand.NewPCG(uint64(n), 0)); len(b) < payloadSize; {
		b = append(b, byte(random.Uint32()))
	}
	return b
}

// playback is what a player of RTSP has received.
type playback struct {
	asks bool // for missing packets

	got            map[uint32]bool
	asked          map[uint32]int // how often
	first, highest uint32
	settled        uint32 // all before it have come, or were asked for maxAsks times
	shift          uint16 // of sequence numbers, from the publisher's
	last           uint32 // 0: not known
	lastAt         time.Time
}

func newPlayback(asks bool) *playback {
	return &playback{asks: asks, got: make(map[uint32]bool), asked: make(map[uint32]int)}
}

func (p *playback) String() string {
	return fmt.Sprintf("packets %d to %d: %d arrived, %d asked for, missing %v", p.first, p.highest, len(p.got),
		len(p.asked), p.missing(10))
}

// take takes a packet: one that was published, with the sequence number that it should have, and once.
func (p *playback) take(b []byte) error {
	var received rtp.Packet
	if err := received.Unmarshal(b); err != nil {
		return err
	}
	if len(received.Payload) != payloadSize {
		return fmt.Errorf("a payload of %d bytes", len(received.Payload))
	}
	n, isLast := binary.BigEndian.Uint32(received.Payload[2:]), received.Payload[6] == 1
	if !bytes.Equal(received.Payload, framePayload(n, isLast)) {
		return fmt.Errorf("packet %d has bytes that were not published", n)
	}
	shift := received.SequenceNumber - uint16(n)
	switch {
	case len(p.got) == 0 && n%groupSize != 1:
		return fmt.Errorf("the first packet is %d, which is no key frame", n)
	case len(p.got) == 0:
		p.first, p.highest, p.settled, p.shift = n, n, n, shift
	case shift != p.shift:
		return fmt.Errorf("packet %d has the sequence number of %d", n, n+uint32(shift-p.shift))
	case p.got[n] && p.asked[n] == 0:
		return fmt.Errorf("packet %d has come before", n)
	case n < p.first || n < p.highest && !p.asks:
		return fmt.Errorf("packet %d comes after %d", n, p.highest)
	}
	p.got[n], p.highest = true, max(p.highest, n)
	if isLast && p.last == 0 {
		p.last, p.lastAt = n, time.Now()
	}
	return nil
}

// end is the last packet that is known.
func (p *playback) end() uint32 {
	if p.last != 0 {
		return p.last
	}
	return p.highest
}

// missing returns the first packets that have not come, up to the last one.
func (p *playback) missing(most int) (all []uint32) {
	for n := p.first; n <= p.end() && len(all) < most; n++ {
		if !p.got[n] {
			all = append(all, n)
		}
	}
	return all
}

// Limits of complaints. The relay sends a packet twice again, but not all that is asked for at the same time.
const (
	maxAsks  = 50 // for a packet
	maxNacks = 100
)

// complaint returns a NACK, if something is missing that was not asked for often enough.
func (p *playback) complaint() []byte {
	if !p.asks || len(p.got) == 0 {
		return nil
	}
	isSettled := func(n uint32) bool { return p.got[n] || p.asked[n] >= maxAsks }
	for p.settled <= p.end() && isSettled(p.settled) {
		p.settled++
	}
	nack := &rtcp.TransportLayerNack{}
	for n := p.settled; n <= p.end() && len(nack.Nacks) < maxNacks; n++ {
		if !isSettled(n) {
			nack.Nacks = append(nack.Nacks, rtcp.NackPair{PacketID: uint16(n) + p.shift})
			p.asked[n]++
		}
	}
	if len(nack.Nacks) == 0 {
		return nil
	}
	b, err := nack.Marshal()
	if err != nil {
		panic(err) // a hundred fit into a packet
	}
	return b
}

// isWhole reports whether all packets have come, from the first that has to the last one.
func (p *playback) isWhole() bool { return p.last != 0 && len(p.missing(1)) == 0 }

// isNearlyWhole reports whether at most one of a hundred is missing.
func (p *playback) isNearlyWhole() bool {
	return p.last != 0 && 100*len(p.missing(int(p.last))) <= int(p.last-p.first)+1
}

// late is how long ago the last packet has come, or 0.
func (p *playback) late() time.Duration {
	if p.last == 0 {
		return 0
	}
	return time.Since(p.lastAt)
}

// TestPlayback loses, repeats, changes, moves and renumbers packets: each is noticed.
func TestPlayback(t *testing.T) {
	all := func(first, last uint32) (list [][]byte) {
		for n := first; n <= last; n++ {
			list = append(list, rtspPacket(n, n == last))
		}
		return list
	}
	play := func(asks bool, list ...[]byte) (*playback, error) {
		p := newPlayback(asks)
		for _, b := range list {
			if err := p.take(b); err != nil {
				return p, err
			}
		}
		return p, nil
	}
	list := all(groupSize+1, 3*groupSize)
	p, err := play(false, list...)
	require.NoError(t, err)
	require.True(t, p.isWhole())
	require.Nil(t, p.complaint())

	p, err = play(true, slices.Delete(slices.Clone(list), 7, 8)...)
	require.NoError(t, err)
	require.False(t, p.isWhole())
	require.True(t, p.isNearlyWhole())
	var nack rtcp.TransportLayerNack
	require.NoError(t, nack.Unmarshal(p.complaint()))
	require.Equal(t, []uint16{groupSize + 8}, nack.Nacks[0].PacketList())
	require.NoError(t, p.take(list[7]))
	require.True(t, p.isWhole())
	require.NoError(t, p.take(list[7]), "it has asked for it")
	require.ErrorContains(t, p.take(list[8]), "has come before")

	p, err = play(false, slices.Delete(slices.Clone(list), 7, 17)...)
	require.NoError(t, err)
	require.False(t, p.isNearlyWhole())
	require.Nil(t, p.complaint(), "it does not ask")
	require.Nil(t, newPlayback(true).complaint(), "nothing has come")
	many := all(1, 4*groupSize)
	p, err = play(true, slices.Delete(slices.Clone(many), 1, maxNacks+11)...) // packets 2 to 111
	require.NoError(t, err)
	for range maxAsks {
		nack = rtcp.TransportLayerNack{}
		require.NoError(t, nack.Unmarshal(p.complaint()))
		require.Len(t, nack.Nacks, maxNacks)
	}
	for range maxAsks {
		nack = rtcp.TransportLayerNack{}
		require.NoError(t, nack.Unmarshal(p.complaint()))
		require.Len(t, nack.Nacks, 10, "later ones than those that never come")
		require.EqualValues(t, maxNacks+2, nack.Nacks[0].PacketID)
	}
	require.Nil(t, p.complaint())
	p, err = play(false, list[:len(list)-1]...)
	require.NoError(t, err)
	require.False(t, p.isWhole())
	require.False(t, p.isNearlyWhole())

	_, err = play(false, list[1])
	require.ErrorContains(t, err, "no key frame")
	_, err = play(false, list[0], list[2], list[1])
	require.ErrorContains(t, err, "comes after")
	changed := bytes.Clone(list[1])
	changed[len(changed)-1] ^= 1
	_, err = play(false, list[0], changed)
	require.ErrorContains(t, err, "not published")
	renumbered := bytes.Clone(list[1])
	renumbered[3]++
	_, err = play(false, list[0], renumbered)
	require.ErrorContains(t, err, "has the sequence number of")
	_, err = play(false, list[0], list[1][:100])
	require.ErrorContains(t, err, "a payload of")
}
