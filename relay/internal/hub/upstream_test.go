package hub

import (
	"bufio"
	"bytes"
	"fmt"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// The end of a stream comes together with its last bytes, which hold the id of its first object.
func TestFirstObjectOfShortStream(t *testing.T) {
	written := []byte{5, 1, 'x'}
	stream := bufio.NewReader(iotest.DataErrReader(bytes.NewReader(written)))
	id, err := firstObject(stream)
	require.NoError(t, err)
	require.EqualValues(t, 5, id)
	require.NoError(t, iotest.TestReader(stream, written))
}

func TestEndsByUpdate(t *testing.T) {
	done := func(status moqt.PublishDoneCode) error {
		return &session.DoneError{PublishDone: moqt.PublishDone{Status: status}}
	}
	for err, want := range map[error]bool{
		&moqt.RequestError{Code: moqt.RequestNotSupported}: true,
		done(moqt.DoneUpdateFailed):                        true,
		done(moqt.DoneGoingAway):                           false,
		&transport.StreamError{Remote: true}:               true,
		&transport.StreamError{}:                           false, // the relay cancelled it
		session.ErrTimeout:                                 true,
		session.ErrSuperseded:                              false,
	} {
		require.Equal(t, want, endsByUpdate(fmt.Errorf("update live: %w", err)), "%v", err)
	}
}
