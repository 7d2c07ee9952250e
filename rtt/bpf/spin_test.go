//go:build linux

package bpf

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/rtt/internal/wire"
)

// spinning shows a handshake with the RTTs of the path and then its 1-RTT packets.
func spinning(t *testing.T, s MonitorSettings, path wire.SpinPath) *watch {
	s.Quic = 1
	w := watching(t, s)
	far, near := 2*path.ToServer, 2*path.ToClient
	w.show(MonitorProgEgress, 0, wire.Frame(up(0, clientToInit.Datagram()).packet))
	w.show(MonitorProgEgress, far, wire.Frame(down(0, wire.Long{
		Destination: clientID, Source: serverID,
	}.Datagram()).packet))
	w.show(MonitorProgEgress, far+near, wire.Frame(up(0, wire.Long{
		Type: wire.Handshake, Destination: serverID, Source: clientID,
	}.Datagram()).packet))
	w.got()
	for i, p := range path.Packets() {
		packet := down(0, wire.Short(p.Value, clientID, byte(i*7), 100)).packet
		if p.FromClient {
			packet = up(0, wire.Short(p.Value, serverID, byte(i*7), 100)).packet
		}
		w.show(MonitorProgEgress, far+near+p.At, wire.Frame(packet))
	}
	return w
}

// class is how the connection was classified.
func (w *watch) class() MonitorSpinClass {
	w.t.Helper()
	var key MonitorFlowKey
	var flow MonitorFlow
	iter := w.m.Maps[MonitorMapFlows].Iterate()
	require.True(w.t, iter.Next(&key, &flow))
	return MonitorSpinClass(flow.Quic().Class)
}

var steady = wire.SpinPath{
	ToClient: 5 * time.Millisecond, ToServer: 20 * time.Millisecond,
	EveryClient: time.Millisecond, EveryServer: time.Millisecond, Duration: 2 * time.Second, Seed: 1,
}

func TestSpinBit(t *testing.T) {
	w := spinning(t, MonitorSettings{}, steady)
	require.Equal(t, MonitorSpinClassSPIN_SPINNING, w.class())
	samples := w.spins()
	// 2 s at an RTT of 50 ms, in both directions, less the 16 edges until the bit is classified.
	require.InDelta(t, 2*(2000/50)-16, len(samples), 4)
	for _, s := range samples {
		// A packet is sent up to one interval after the edge arrives, at each end.
		require.InDelta(t, 50*time.Millisecond, time.Duration(s.Rtt), float64(2*time.Millisecond))
		near, far := 10*time.Millisecond, 40*time.Millisecond
		if s.DestinationPort == htons(quicServer.Port()) {
			near, far = far, near
		}
		require.InDelta(t, near, time.Duration(s.Rtt-s.FarRtt), float64(time.Millisecond))
		require.InDelta(t, far, time.Duration(s.FarRtt), float64(time.Millisecond))
	}
}

// spins returns the spin bit RTTs since the last call.
func (w *watch) spins() (samples []MonitorEvent) {
	for _, e := range w.raw() {
		if e.Type == uint8(MonitorEventTypeEVENT_RTT) && e.Method == uint8(MonitorMethodMETHOD_SPIN) {
			samples = append(samples, e)
		}
	}
	return samples
}

func htons(port uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, port))
}

func TestSpinBitThatDoesNotSpin(t *testing.T) {
	with := func(client, server wire.Spin) wire.SpinPath {
		p := steady
		p.Client, p.Server = client, server
		return p
	}
	slow := with(wire.SpinRandom, wire.SpinOn)
	slow.EveryClient, slow.EveryServer = 50*time.Millisecond, 50*time.Millisecond // one packet an RTT
	slow.Duration = 60 * time.Second
	// The client answers the server's random bit at once, so that the edges are in turn.
	near := with(wire.SpinOn, wire.SpinRandom)
	near.ToClient = 100 * time.Microsecond
	for name, test := range map[string]struct {
		path wire.SpinPath
		want MonitorSpinClass
	}{
		"random at the server, seen at the client": {near, MonitorSpinClassSPIN_RANDOM},
		"constant on both ends": {
			with(wire.SpinConstant, wire.SpinConstant), MonitorSpinClassSPIN_CONSTANT,
		},
		"constant at the client": {
			with(wire.SpinConstant, wire.SpinOn), MonitorSpinClassSPIN_CONSTANT,
		},
		"constant at the server": {
			with(wire.SpinOn, wire.SpinConstant), MonitorSpinClassSPIN_CONSTANT,
		},
		"random on both ends": {
			with(wire.SpinRandom, wire.SpinRandom), MonitorSpinClassSPIN_RANDOM,
		},
		"random at the client":      {with(wire.SpinRandom, wire.SpinOn), MonitorSpinClassSPIN_RANDOM},
		"random at the server":      {with(wire.SpinOn, wire.SpinRandom), MonitorSpinClassSPIN_RANDOM},
		"random, one packet an RTT": {slow, MonitorSpinClassSPIN_RANDOM},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(5) {
				test.path.Seed = seed
				w := spinning(t, MonitorSettings{}, test.path)
				require.Equal(t, test.want, w.class(), "seed %d", seed)
				require.Empty(t, w.spins(), "seed %d", seed)
			}
		})
	}
}

func TestSpinBitWithReordering(t *testing.T) {
	for by, probability := range map[time.Duration]float64{
		2 * time.Millisecond:  0.01, // overtaken by two packets
		7 * time.Millisecond:  0.01,
		30 * time.Millisecond: 0.001, // more than half an RTT
	} {
		t.Run(by.String(), func(t *testing.T) {
			path := steady
			path.Duration, path.Reorder, path.ReorderBy = 10*time.Second, probability, by
			w := spinning(t, MonitorSettings{}, path)
			require.Equal(t, MonitorSpinClassSPIN_SPINNING, w.class())
			samples := w.spins()
			require.NotZero(t, w.tally(MonitorTallyTALLY_SPIN_STRAYS))
			require.NotZero(t, w.tally(MonitorTallyTALLY_SPIN_DISTURBED))
			require.Greater(t, len(samples), 100)
			wrong := 0
			for _, s := range samples {
				if d := time.Duration(s.Rtt) - 50*time.Millisecond; d < -2*time.Millisecond || d > 4*time.Millisecond {
					wrong++
				}
			}
			require.LessOrEqual(t, wrong, len(samples)/50, "of %d samples", len(samples))
		})
	}
}

func TestSpinBitWithLoss(t *testing.T) {
	path := steady
	path.Duration, path.Loss = 10*time.Second, 0.02
	w := spinning(t, MonitorSettings{}, path)
	samples := w.spins()
	require.Greater(t, len(samples), 350)
	for _, s := range samples {
		require.InDelta(t, 51*time.Millisecond, time.Duration(s.Rtt), float64(5*time.Millisecond))
	}
}

func TestSpinBitSampling(t *testing.T) {
	w := spinning(t, MonitorSettings{StampInterval: uint64(500 * time.Millisecond)}, steady)
	require.InDelta(t, 2*3, len(w.spins()), 2)
}
