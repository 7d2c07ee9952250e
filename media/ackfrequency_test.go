package media

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/packet"
)

// withAckFrequency makes the peer understand ACK_FREQUENCY.
func withAckFrequency(minDelay, maxDelay time.Duration) func(*worldConfig) {
	return func(c *worldConfig) { c.params.MinAckDelay, c.params.MaxAckDelay = &minDelay, maxDelay }
}

// frequencyWorld is a world whose peer understands ACK_FREQUENCY, and has acknowledged a packet.
func frequencyWorld(t *testing.T, window int, configure ...func(*worldConfig)) (*world, *fixedController) {
	f := &fixedController{window: window}
	w := newWorld(t, append(configure, withController(f))...)
	w.stream(w.subscribe(), newTestLog(0, 10))
	require.Len(t, w.run(), 1, "nothing is asked before anything is acknowledged")
	w.ack(10 * ms)
	return w, f
}

// requests returns the fields of the ACK_FREQUENCY frames among packets.
func requests(packets []*wirePacket) (fields [][]uint64) {
	for _, p := range packets {
		if p.frame == packet.FrameAckFrequency {
			fields = append(fields, p.fields)
		}
	}
	return fields
}

// setWindow changes the window, and has it published by an ACK.
func (w *world) setWindow(f *fixedController, bytes int) {
	f.window = bytes
	w.ack(10 * ms)
}

func TestAckFrequency(t *testing.T) {
	w, f := frequencyWorld(t, 80*testMTU, withAckFrequency(ms, 25*ms))
	require.Equal(t, [][]uint64{{1, 20, 25_000, 1}}, requests(w.run()), "a quarter of the window")
	w.setWindow(f, 400*testMTU)
	require.Equal(t, [][]uint64{{2, 100, 25_000, 1}}, requests(w.run()))
	w.setWindow(f, 200*testMTU)
	require.Equal(t, [][]uint64{{3, 50, 25_000, 1}}, requests(w.run()), "the window has shrunk")
	w.setWindow(f, 399*testMTU)
	require.Empty(t, w.run(), "it has not doubled")
	w.setWindow(f, 10_000*testMTU)
	require.Equal(t, [][]uint64{{4, maxUnacked, 25_000, 1}}, requests(w.run()))
	w.setWindow(f, 20_000*testMTU)
	require.Empty(t, w.run())
	w.setWindow(f, 2*testMTU)
	require.Equal(t, [][]uint64{{5, 1, 25_000, 1}}, requests(w.run()), "as without ACK_FREQUENCY")
	require.EqualValues(t, 5, w.s.Stats().AckRequests)
	require.EqualValues(t, 5, w.s.shard.asked.Load())
}

// A lost frame is sent again, as another one, with the wish of then.
func TestAckFrequencyIsLost(t *testing.T) {
	w, f := frequencyWorld(t, 80*testMTU, withAckFrequency(ms, 25*ms))
	lost := w.run()
	require.Len(t, requests(lost), 1)
	log := newTestLog(0, 10*testMTU)
	w.stream(w.subscribe(), log)
	sent := w.run()
	require.Empty(t, requests(sent))
	f.window = 100 * testMTU
	w.clock.advance(10 * ms)
	w.ackNumbers(sent[len(sent)-1].number)
	again := w.run()
	require.Equal(t, [][]uint64{{2, 25, 25_000, 1}}, requests(again))
	w.ackNumbers(lost[0].number) // it was late
	require.Empty(t, requests(w.run()))
	w.ack(10 * ms)
	require.Empty(t, requests(w.run()))
	require.False(t, w.s.acks.waiting)
}

// Probe timeouts are computed with the delay that was asked for, once the peer has acknowledged that.
func TestAckFrequencyAndProbeTimeout(t *testing.T) {
	w, _ := frequencyWorld(t, 80*testMTU, withAckFrequency(2*ms, 100*ms))
	require.Equal(t, [][]uint64{{1, 20, 25_000, 1}}, requests(w.run()))
	require.Equal(t, 100*ms, w.s.recovery.maxAckDelay)
	before := w.s.recovery.pto()
	w.ack(0)
	require.Equal(t, 25*ms, w.s.recovery.maxAckDelay)
	require.Less(t, w.s.recovery.pto(), before-70*ms)
}

func TestAckFrequencyIsNotUnderstood(t *testing.T) {
	w, f := frequencyWorld(t, 80*testMTU)
	require.Empty(t, w.run())
	w.setWindow(f, 1000*testMTU)
	require.Empty(t, w.run())
}

// A probe asks for its ACK at once, whatever it carries, and is no larger than the path allows.
func TestProbesAskForImmediateAcks(t *testing.T) {
	for name, send := range map[string]func(w *world){
		"data": func(w *world) { w.stream(w.subscribe(), newTestLog(0, 5*testMTU)) },
		"ping": func(w *world) {
			require.NoError(w.t, w.subscribe().SendDatagram(Datagram{Payload: []byte("x"), Received: w.clock.Wall()}))
		},
	} {
		w, _ := frequencyWorld(t, 80*testMTU, withAckFrequency(ms, 25*ms))
		w.run()
		w.ack(10 * ms)
		w.run()
		send(w)
		for _, p := range w.run() {
			require.False(t, p.immediate, "%s: %v", name, p)
		}
		for range 3 {
			var probes []*wirePacket
			for len(probes) == 0 {
				probes = w.sleep(time.Hour)
			}
			for i, p := range probes {
				require.Equal(t, i < probePackets, p.immediate, "%s: %v", name, p)
				require.LessOrEqual(t, p.size, testMTU)
			}
		}
		w.ack(10 * ms)
		for _, p := range w.run() {
			require.False(t, p.immediate, "%s: %v", name, p)
		}
	}
}
