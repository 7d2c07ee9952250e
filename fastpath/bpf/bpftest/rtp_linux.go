package bpftest

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"

	"sluice/internal/rtpframe"
)

// RTP is the loaded programs that look at RTP packets and decide about their frames.
type RTP struct{ RTPObjects }

// NewRTP loads them, after changes.
func NewRTP(t testing.TB, changes ...func(*ebpf.CollectionSpec) error) *RTP {
	t.Helper()
	k := new(RTP)
	load(t, LoadRTP, &k.RTPObjects, changes...)
	return k
}

// Kind returns the kind of a payload, and changes the highest temporal id.
func (k *RTP) Kind(t testing.TB, c rtpframe.Codec, payload []byte, temporal *uint32) rtpframe.Kind {
	require.NoError(t, k.Codec.Set(uint32(c)))
	require.NoError(t, k.Temporal.Set(*temporal))
	kind, err := k.TestKind.Run(&ebpf.RunOptions{Data: append(make([]byte, 14), payload...)})
	require.NoError(t, err)
	require.NoError(t, k.Temporal.Get(temporal))
	return rtpframe.Kind(kind)
}

// Number returns the number of a packet's frame, with frames that are changed.
func (k *RTP) Number(t testing.TB, f *rtpframe.Frames, timestamp uint32, sequence uint16) uint32 {
	require.NoError(t, k.Frames.Set(Bytes(f)))
	require.NoError(t, k.Timestamp.Set(timestamp))
	require.NoError(t, k.Sequence.Set(uint32(sequence)))
	number, _ := runOnce(t, k.TestNumber, 0)
	require.NoError(t, k.Frames.Get(Bytes(f)))
	return number
}

// Goes asks whether a packet goes, with a flow that is changed.
func (k *RTP) Goes(t testing.TB, f *rtpframe.Flow, p RTPRtpPart) RTPReason {
	require.NoError(t, k.Flow.Set(Bytes(f)))
	require.NoError(t, k.Part.Set(p))
	why, _ := runOnce(t, k.TestGoes, 0)
	require.NoError(t, k.Flow.Get(Bytes(f)))
	return RTPReason(why)
}
