package pcap

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWriter(t *testing.T) {
	packets := []Packet{
		{At: time.Unix(1, 999_999_999).UTC(), Frame: bytes.Repeat([]byte{1}, 60), Length: 60},
		{At: time.Unix(2, 1).UTC(), Frame: bytes.Repeat([]byte{2}, 66), Length: 1514},
	}
	var b bytes.Buffer
	w, err := NewWriter(&b)
	require.NoError(t, err)
	for _, p := range packets {
		require.NoError(t, w.Write(p))
	}
	require.Equal(t, pcapOf(t, linkEthernet, maxCaptured, packets...), b.Bytes(), "as another library writes them")
}
