package load

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/bluenviron/gortsplib/v5/pkg/format"
	"github.com/stretchr/testify/require"

	"sluice/lab/bench/video"
	"sluice/relay"
	"sluice/rtsp"
)

// startRTSP runs an RTSP server on loopback until the test ends, and returns its URL.
func startRTSP(t *testing.T) string {
	t.Helper()
	r, err := relay.New(relay.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); r.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	for port := 20000; ; port += 2 {
		s, err := rtsp.Start(rtsp.Config{
			Relay: r, Address: "127.0.0.1:0", RTPAddress: fmt.Sprintf("127.0.0.1:%d", port),
			Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil && port < 30000 {
			continue // somebody has the port
		}
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return "rtsp://" + s.Addr().String()
	}
}

// A publisher and players go through their whole life with an RTSP server between them; no packet is lost or damaged.
func TestRTSPGenerators(t *testing.T) {
	t.Parallel()
	const sessions = 3
	url := startRTSP(t)
	mock := video.Mock{Rate: 1e6, FrameRate: 50, Group: 10}
	publisher := startGenerator(t, GeneratorConfig{Publish: true, URL: url, Mock: mock})
	require.True(t, publisher.event(t).Ready)
	players := startGenerator(t, GeneratorConfig{URL: url, Mock: mock, Sessions: sessions})
	require.Equal(t, Event{Ready: true}, players.event(t))
	first := newReceiver(mock.WithDefaults(), false)
	client, err := playInto(newFrameReader(first), url+"/"+Namespace)
	require.NoError(t, err)
	defer client.Close()

	publisher.tell(t, Go)
	first.waitFor(t.Context(), 5)
	publisher.tell(t, Stop)
	published := publisher.event(t).Published
	require.NotNil(t, published)
	require.GreaterOrEqual(t, published.Objects, uint64(5))
	require.Greater(t, published.Packets, published.Objects, "frames of several packets")
	require.Zero(t, published.Failed)
	players.tell(t, fmt.Sprintf("%s %d", Stop, published.Objects))
	received := players.event(t).Received
	require.Len(t, received, sessions)
	for _, r := range received {
		require.Equal(t, published.Objects, r.Objects)
		require.Equal(t, published.Bytes, r.Bytes)
		require.Equal(t, published.Packets, r.Packets)
		require.Zero(t, r.Corrupt+r.Duplicates)
	}
	publisher.tell(t, Stop)
	require.NoError(t, <-publisher.ended)
	require.NoError(t, <-players.ended)
}

// packetsOf returns the RTP packets of the first frames, as a publisher sends them.
func packetsOf(t *testing.T, m video.Mock, frames uint64) (all [][]byte) {
	t.Helper()
	h264 := &format.H264{PayloadTyp: 96, PacketizationMode: 1}
	encoder, err := h264.CreateEncoder()
	require.NoError(t, err)
	encoder.PayloadMaxSize = rtpPayload
	for n := range frames {
		packets, err := encoder.Encode([][]byte{append([]byte{nalSlice}, m.Payload(n, time.Unix(1, 0))...)})
		require.NoError(t, err)
		for _, p := range packets {
			p.Timestamp = 77 + timestamp(m.Frame(n))
			b, err := p.Marshal()
			require.NoError(t, err)
			all = append(all, b)
		}
	}
	return all
}

func TestFrameReader(t *testing.T) {
	m := video.Mock{Rate: 8 * 3000, FrameRate: 1, Group: 10, Key: 1}.WithDefaults() // frames of three packets
	type packets [][]byte
	without := func(lost ...int) func(packets) packets {
		return func(all packets) (kept packets) {
			for i, p := range all {
				if len(lost) == 0 || i != lost[0] {
					kept = append(kept, p)
					continue
				}
				lost = lost[1:]
			}
			return kept
		}
	}
	for name, c := range map[string]struct {
		change func(packets) packets
		want   Received
	}{
		"all":             {without(), Received{Objects: 4, Bytes: 12000, Packets: 12}},
		"first lost":      {without(3), Received{Objects: 3, Bytes: 9000, Packets: 11}},
		"middle lost":     {without(4), Received{Objects: 3, Bytes: 9000, Packets: 11}},
		"last lost":       {without(5), Received{Objects: 3, Bytes: 9000, Packets: 11}},
		"a whole frame":   {without(3, 4, 5), Received{Objects: 3, Bytes: 9000, Packets: 9}},
		"two frames meet": {without(5, 6), Received{Objects: 2, Bytes: 6000, Packets: 10}},
		"early": {func(all packets) packets { all[4], all[7] = all[7], all[4]; return all },
			Received{Objects: 4, Bytes: 12000, Packets: 12, Disordered: 3}},
		"given up": {func(all packets) packets { return append(all[1:], all[0]) },
			Received{Objects: 3, Bytes: 9000, Packets: 12, Disordered: 1}},
		"other packets": {func(all packets) packets { return append(all, []byte{1}, all[0][:12], make([]byte, 40)) },
			Received{Objects: 4, Bytes: 12000, Packets: 12}},
		"a frame twice": {func(all packets) packets { return append(all, all[9:]...) },
			Received{Objects: 4, Bytes: 12000, Packets: 15, Disordered: 2}},
		"another timestamp": {func(all packets) packets { all[11][7]++; return all },
			Received{Objects: 3, Bytes: 9000, Packets: 12, Corrupt: 1}},
		"another byte": {func(all packets) packets { all[4][100]++; return all },
			Received{Objects: 3, Bytes: 9000, Packets: 12, Corrupt: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFrameReader(newReceiver(m, false))
			for _, p := range c.change(packetsOf(t, m, 4)) {
				r.read(p)
			}
			r.settle()
			require.Equal(t, c.want, r.receiver.result())
		})
	}
}

// A relay that is not there yet is tried again, and one that plays nothing is no player's relay.
func TestPlayNothing(t *testing.T) {
	t.Parallel()
	url := startRTSP(t)
	_, err := playInto(newFrameReader(newReceiver(video.Mock{}, false)), url+"/nothing")
	require.ErrorContains(t, err, "404")
	_, err = playInto(nil, "rtsp://127.0.0.1:1/nothing")
	require.Error(t, err)
}
