//go:build linux

package bpf

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/rtt/internal/wire"
)

// losing shows a handshake, and then the packets of the server.
func losing(t *testing.T, path wire.LossPath) *watch {
	w := watching(t, MonitorSettings{Quic: 1, Aggregate: 1, Ipv4Mask: 0xffffffff})
	w.show(MonitorProgEgress, 0, wire.Frame(up(0, clientToInit.Datagram()).packet))
	w.show(MonitorProgEgress, 0, wire.Frame(down(0, wire.Long{
		Destination: clientID, Source: serverID,
	}.Datagram()).packet))
	for i, p := range path.Seen() {
		short := wire.Short(false, clientID, p.Bits, 100)
		w.show(MonitorProgEgress, time.Duration(i)*time.Millisecond, wire.Frame(down(0, short).packet))
	}
	return w
}

// losses returns the counts of the prefixes of the server, which sends, and of the client, which receives.
func (w *watch) losses() (sent, received MonitorLoss) {
	w.t.Helper()
	var key MonitorPrefixKey
	var e MonitorRttEntry
	for all := w.m.Maps[MonitorMapPrefixRtts].Iterate(); all.Next(&key, &e); {
		for _, p := range e.Periods {
			sent, received = plusLoss(sent, p.Sent), plusLoss(received, p.Received)
		}
	}
	return sent, received
}

func plusLoss(a, b MonitorLoss) MonitorLoss {
	return MonitorLoss{All: a.All + b.All, Passed: a.Passed + b.Passed, Reported: a.Reported + b.Reported}
}

// Without reordering, the packets of a block that has passed are known exactly. The first block is not counted, because
// it may have begun before.
func TestLossBits(t *testing.T) {
	t.Parallel()
	const blocks = 24
	for name, path := range map[string]wire.LossPath{
		"no loss":              {},
		"before the observer":  {Before: 0.02},
		"behind it":            {After: 0.03},
		"on both sides of it":  {Before: 0.05, After: 0.05},
		"many before it":       {Before: 0.15},
		"more than a block":    {Burst: 10 * 64},
		"one within two":       {Burst: 10*64 - 8},
		"a burst behind a few": {Before: 0.01, Burst: 10*64 + 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path.Packets = (blocks+1)*64 + 32 // the end of a block is known after packets of the next
			path.Seed = 1
			seen := path.Seen()
			w := losing(t, path)
			sent, received := w.losses()
			require.Equal(t, sent, received)
			require.EqualValues(t, 64*blocks, sent.All)
			require.EqualValues(t, blocks, w.tally(MonitorTallyTALLY_LOSS_BLOCKS))
			counted := slices.DeleteFunc(slices.Clone(seen), func(p wire.LossPacket) bool {
				return p.Number < 64 || p.Number >= (blocks+1)*64
			})
			require.EqualValues(t, len(counted), sent.Passed)
			reported := slices.DeleteFunc(counted, func(p wire.LossPacket) bool { return p.Bits&0x08 == 0 })
			require.InDelta(t, len(reported), sent.Reported, 8, "marks until the end of a block is known")
			if lost := path.Before + (1-path.Before)*path.After; lost > 0 && path.Burst == 0 {
				require.InDelta(t, lost, float64(sent.Reported)/float64(sent.Passed), lost/2)
			}
		})
	}
}

// The sum stays right where packets overtake others.
func TestLossBitsWithReordering(t *testing.T) {
	t.Parallel()
	w := losing(t, wire.LossPath{Packets: 64 * 41, Before: 0.02, Reorder: 0.05, Seed: 2})
	sent, _ := w.losses()
	require.InDelta(t, 64*39, sent.All, 128)
	require.InDelta(t, 0.98, float64(sent.Passed)/float64(sent.All), 0.02)
}

// Bits that are not the loss bits of RFC 9506 count nothing.
func TestOtherBits(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]wire.LossPath{
		"header protection":                 {Hidden: true},
		"blocks of 32":                      {Block: 32},
		"blocks of 128":                     {Block: 128},
		"the second bit is a square, too":   {Second: func(n int) bool { return (n+20)/64%2 == 0 }},
		"the second bit is in each packet":  {Second: func(int) bool { return true }},
		"the square is lost more than half": {Before: 0.6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path.Packets, path.Seed = 2000, 3
			w := losing(t, path)
			sent, received := w.losses()
			require.Zero(t, sent)
			require.Zero(t, received)
			require.Zero(t, w.tally(MonitorTallyTALLY_LOSS_BLOCKS))
		})
	}
}

// Another connection between the same ports begins anew.
func TestLossBitsOfNextConnection(t *testing.T) {
	t.Parallel()
	w := losing(t, wire.LossPath{Packets: 64 * 10})
	before, _ := w.losses()
	require.NotZero(t, before)
	w.show(MonitorProgEgress, time.Second, wire.Frame(up(0, wire.Long{
		Destination: randomID, Source: []byte{9},
	}.Datagram()).packet))
	for i, p := range (wire.LossPath{Packets: 2000, Hidden: true}).Seen() {
		short := wire.Short(false, clientID, p.Bits, 100)
		w.show(MonitorProgEgress, time.Second+time.Duration(i), wire.Frame(down(0, short).packet))
	}
	after, _ := w.losses()
	require.Equal(t, before, after)
}
