package transport

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestArrivedBeforeEnd: when the peer has ended the session, arrived data can still be read, and then the end.
func TestArrivedBeforeEnd(t *testing.T) {
	for _, k := range []Kind{RawQUIC, WebTransport} {
		for _, byClient := range []bool{false, true} {
			s := newServer(t)
			from, to := s.connect(t, k)
			if !byClient {
				from, to = to, from
			}
			near, err := from.OpenUniStream()
			require.NoError(t, err)
			write(t, near, "xyz")
			far, err := to.AcceptUniStream(testContext(t))
			require.NoError(t, err)
			_, err = io.ReadFull(far, make([]byte, 1)) // the rest has arrived, too
			require.NoError(t, err)
			require.NoError(t, from.CloseWithError(5, "bye"))
			<-to.Context().Done()
			rest, err := io.ReadAll(far)
			require.Equal(t, "yz", string(rest), "%v, by the client: %v", k, byClient)
			require.Equal(t, &SessionError{Code: 5, Remote: true, Reason: "bye"}, err)
		}
	}
}
