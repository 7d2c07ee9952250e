package session

import (
	"context"
	"io"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/transport/transporttest"
)

// benchmarkPair runs two sessions in memory for a benchmark.
func benchmarkPair(b *testing.B, h Handler) (client, server *Session) {
	near, far := transporttest.Pipe(transporttest.PipeConfig{})
	log := slog.New(slog.DiscardHandler)
	unlimited := Limits{RequestRate: 1e9, RequestBurst: 1e9}
	client, err := New(near, Config{Logger: log})
	require.NoError(b, err)
	server, err = New(far, Config{Role: Server, Handler: h, Logger: log, Limits: unlimited})
	require.NoError(b, err)
	for _, s := range []*Session{client, server} {
		go func() { _ = s.Run(context.Background()) }()
	}
	b.Cleanup(func() { client.Close(moqt.SessionNoError, "") })
	return client, server
}

// BenchmarkTrackStatus measures a request and its response, over a transport in memory.
func BenchmarkTrackStatus(b *testing.B) {
	client, _ := benchmarkPair(b, obliging{})
	b.ReportAllocs()
	for b.Loop() {
		_, err := client.TrackStatus(b.Context(), moqt.TrackStatus{Track: testTrack})
		require.NoError(b, err)
	}
}

// counter is a Receiver that discards subgroups and reports each of them.
type counter chan struct{}

func (c counter) HandleSubgroup(g *Subgroup) {
	_, _ = io.Copy(io.Discard, g)
	c <- struct{}{}
}

func (c counter) HandleDatagram(*moqt.ObjectDatagram) { c <- struct{}{} }

// establish subscribes the client, and returns both ends of the subscription.
func establish(b *testing.B) (*Publication, counter) {
	h := newHandler()
	client, _ := benchmarkPair(b, h)
	c := make(counter, 1)
	_, err := client.Subscribe(b.Context(), moqt.Subscribe{Track: testTrack}, c)
	require.NoError(b, err)
	pub := <-h.subscribes
	require.NoError(b, pub.Accept(moqt.Parameters{}, nil))
	return pub, c
}

// BenchmarkSubgroup measures a subgroup stream with a short object, over a transport in memory.
func BenchmarkSubgroup(b *testing.B) {
	pub, c := establish(b)
	object := make([]byte, 1000)
	b.ReportAllocs()
	for b.Loop() {
		stream, err := pub.OpenSubgroup(b.Context(), moqt.SubgroupHeader{GroupID: 1})
		require.NoError(b, err)
		_, err = stream.Write(object)
		require.NoError(b, err)
		require.NoError(b, stream.Close())
		<-c
	}
}

// BenchmarkDatagram measures an object in a datagram, over a transport in memory.
func BenchmarkDatagram(b *testing.B) {
	pub, c := establish(b)
	o := moqt.ObjectDatagram{Payload: make([]byte, 1000)}
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, pub.SendDatagram(o))
		<-c
	}
}
