package relay

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestActionsHaveTheNamesOfTheirMessages(t *testing.T) {
	require.Len(t, messageNames, int(ActionSubscribeTracks)+1)
	require.Equal(t, "PUBLISH", ActionPublish.String())
	require.Equal(t, "FETCH", ActionFetch.String())
	require.Equal(t, "SUBSCRIBE_TRACKS", ActionSubscribeTracks.String())
	require.Equal(t, "Action(200)", Action(200).String())
}
