package moqt

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHopPath(t *testing.T) {
	path, err := HopPath{0, 7}.Through(9)
	require.NoError(t, err)
	require.Equal(t, HopPath{0, 7, 9}, path)
	require.True(t, path.Has(7))
	require.False(t, path.Has(8))
	require.False(t, path.Has(0), "0 is nobody's Hop ID")

	first, err := HopPath(nil).Through(9)
	require.NoError(t, err)
	require.Equal(t, HopPath{9}, first)

	_, err = path.Through(0)
	require.NoError(t, err, "0 may be there twice")
	_, err = path.Through(7)
	require.ErrorContains(t, err, "loop")
	_, err = make(HopPath, MaxHops).Through(9)
	require.ErrorContains(t, err, "33 hops")
}

// TestThroughOwnsItsPath lengthens one path in two ways.
func TestThroughOwnsItsPath(t *testing.T) {
	shared := append(make(HopPath, 0, 8), 1)
	a, err := shared.Through(2)
	require.NoError(t, err)
	b, err := shared.Through(3)
	require.NoError(t, err)
	require.Equal(t, HopPath{1, 2}, a)
	require.Equal(t, HopPath{1, 3}, b)
}

// TestHopsOfASession has HOP_PATH and ROUTE_COST in each message, by what the session has agreed on.
func TestHopsOfASession(t *testing.T) {
	path, cost := Parameters{HopPath: HopPath{7}}, Parameters{HopPath: HopPath{7}, RouteCost: new(uint64(3))}
	opens := Context{}
	on := func(stream MessageType) Context { return Context{Stream: stream} }
	answers := func(stream MessageType) Context { return Context{Stream: stream, FromResponder: true} }
	for _, tc := range []struct {
		name    string
		context Context
		message Message
		allowed [3]bool // with NoHops, HopsOfNamespaces, HopsOfRequests
	}{
		{"PUBLISH_NAMESPACE", opens, &PublishNamespace{}, [3]bool{true, false, false}},
		{"PUBLISH_NAMESPACE with a path", opens, &PublishNamespace{Parameters: path}, [3]bool{false, true, true}},
		{"PUBLISH_NAMESPACE with a cost", opens, &PublishNamespace{Parameters: cost}, [3]bool{false, true, true}},
		{"PUBLISH_NAMESPACE with a cost only", opens,
			&PublishNamespace{Parameters: Parameters{RouteCost: new(uint64(3))}}, [3]bool{}},
		{"PUBLISH_NAMESPACE again", on(MessagePublishNamespace), &PublishNamespace{Parameters: path},
			[3]bool{false, true, true}},
		{"PUBLISH_NAMESPACE again, without a path", on(MessagePublishNamespace), &PublishNamespace{}, [3]bool{}},
		{"update of PUBLISH_NAMESPACE", on(MessagePublishNamespace), &RequestUpdate{Parameters: path},
			[3]bool{false, true, true}},
		{"update of the cost", on(MessagePublishNamespace),
			&RequestUpdate{Parameters: Parameters{RouteCost: new(uint64(3))}}, [3]bool{false, true, true}},
		{"update of SUBSCRIBE", on(MessageSubscribe), &RequestUpdate{Parameters: path}, [3]bool{}},
		{"NAMESPACE", answers(MessageSubscribeNamespace), &NamespaceAdded{}, [3]bool{true, false, false}},
		{"NAMESPACE with a path", answers(MessageSubscribeNamespace), &NamespaceAdded{Parameters: &path},
			[3]bool{false, true, true}},
		{"NAMESPACE without parameters", answers(MessageSubscribeNamespace),
			&NamespaceAdded{Parameters: &Parameters{}}, [3]bool{}},
		{"SUBSCRIBE", opens, &Subscribe{}, [3]bool{true, true, true}},
		{"SUBSCRIBE with a path", opens, &Subscribe{Parameters: path}, [3]bool{false, false, true}},
		{"SUBSCRIBE_OK", answers(MessageSubscribe), &SubscribeOK{Parameters: path}, [3]bool{false, false, true}},
		{"PUBLISH", opens, &Publish{Parameters: path}, [3]bool{false, false, true}},
		{"FETCH", opens, &Fetch{Parameters: path}, [3]bool{false, false, true}},
		{"TRACK_STATUS", opens, &TrackStatus{Parameters: path}, [3]bool{false, false, true}},
		{"SUBSCRIBE_NAMESPACE", opens, &SubscribeNamespace{Parameters: path}, [3]bool{false, false, true}},
		{"SUBSCRIBE_TRACKS", opens, &SubscribeTracks{Parameters: path}, [3]bool{false, false, true}},
	} {
		for hops, allowed := range tc.allowed {
			tc.context.Hops = Hops(hops)
			if err := tc.context.Check(Draft18, tc.message); allowed {
				require.NoError(t, err, "%s, %d", tc.name, hops)
			} else {
				requireCode(t, SessionProtocolViolation, err)
			}
		}
	}
}
