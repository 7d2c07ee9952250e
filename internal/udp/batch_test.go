package udp

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeSocket notes the written packets.
type fakeSocket struct {
	packets int
	trains  []int // packets per message
}

func (s *fakeSocket) Trains() bool               { return true }
func (s *fakeSocket) Name(netip.AddrPort) []byte { return nil }

func (s *fakeSocket) Write(messages []Message) {
	for _, m := range messages {
		s.trains = append(s.trains, m.Count)
		s.packets += m.Count
	}
}

func TestBatchTrains(t *testing.T) {
	sock := &fakeSocket{}
	a, b := &Route{trains: true}, &Route{trains: true}
	batch := NewBatch(sock)
	add := func(r *Route, sizes ...int) {
		for _, n := range sizes {
			require.GreaterOrEqual(t, cap(batch.Next()), n)
			batch.Add(r, n)
		}
	}
	add(a, 1200, 1200, 700) // a shorter packet ends a train
	add(a, 1200)
	add(a, 1300)       // a longer one cannot join
	add(b, 1300, 1300) // nor can one for another destination
	add(a, 1300)
	add(&Route{}, 50, 50) // a device without offload
	batch.Flush()
	require.Equal(t, []int{3, 1, 1, 2, 1, 1, 1}, sock.trains)
	require.Equal(t, 10, sock.packets)
	batch.Flush()
	require.Equal(t, 10, sock.packets)

	sock.trains = nil
	for range maxSegments + 1 {
		add(a, 100)
	}
	batch.Flush()
	require.Equal(t, []int{maxSegments, 1}, sock.trains)
	sock.trains = nil
	for range 60 {
		add(a, 1452)
	}
	batch.Flush()
	require.Equal(t, []int{maxTrain / 1452, 60 - maxTrain/1452}, sock.trains)
}

func TestBatchIsBounded(t *testing.T) {
	sock := &fakeSocket{}
	batch := NewBatch(sock)
	n := 0
	for ; !batch.Full(); n++ {
		batch.Next()
		batch.Add(&Route{}, 1000)
	}
	require.Equal(t, maxMessages, n)
	batch.Flush()
	for n = 0; !batch.Full(); n++ {
		batch.Add(&Route{}, MaxPacket)
	}
	require.Equal(t, batchBytes/MaxPacket, n)
}

func TestFailureNames(t *testing.T) {
	seen := map[string]bool{}
	for f := range numFailures {
		require.NotEmpty(t, f.String())
		require.False(t, seen[f.String()])
		seen[f.String()] = true
	}
	require.Equal(t, "unknown", failure(99).String())
}
