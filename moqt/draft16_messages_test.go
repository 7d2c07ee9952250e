package moqt

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// goldens16 are the messages of draft-16 §9, and their encodings, computed by hand. Messages that belong to a request
// refer to request 70, or to the update 70.
var goldens16 = []struct {
	name    string
	message Message
	answers MessageType
	wire    string
	valid   []int // lengths at which the payload may be cut
}{
	{
		name: "CLIENT_SETUP",
		message: &Setup{
			Path: new("/"), Authority: new("a"), MaxRequestID: 100, MaxAuthTokenCacheSize: 5, Implementation: "x",
			AuthorizationTokens: []Token{{AliasType: AliasUseValue, Type: 70, Value: []byte("v")}},
		},
		wire: "20 0015 06 01 01 2f 01 4064 01 04 03 4046 76 01 05 01 01 61 02 01 78",
	},
	{
		name:    "SERVER_SETUP",
		message: &Setup{Server: true, MaxRequestID: 2, Unknown: []KeyValuePair{{Type: 0x6, Value: 1}}},
		wire:    "21 0005 02 02 02 04 01",
	},
	{name: "GOAWAY", message: &Goaway{NewSessionURI: "moqt://b"}, wire: "10 0009 08 6d6f71743a2f2f62"},
	{name: "MAX_REQUEST_ID", message: &MaxRequestID{300}, wire: "15 0002 412c"},
	{name: "REQUESTS_BLOCKED", message: &RequestsBlocked{2}, wire: "1a 0001 02"},
	{
		name: "REQUEST_OK", message: &RequestOK{Parameters: Parameters{LargestObject: &Location{3, 200}}},
		wire: "07 0008 4046 01 09 03 03 40c8",
	},
	{
		name: "PUBLISH_OK", answers: MessagePublish,
		message: &RequestOK{Parameters: Parameters{
			Forward: new(false), SubscriberPriority: new(uint8(200)), GroupOrder: new(Descending),
		}},
		wire: "1e 000a 4046 03 10 00 10 40c8 02 02",
	},
	{
		name: "REQUEST_ERROR", message: &RequestError{Code: RequestInvalidRange, RetryInterval: 101, Reason: "no"},
		wire: "05 0008 4046 11 4065 02 6e6f",
	},
	{
		name: "SUBSCRIBE",
		message: &Subscribe{RequestID: 64, Track: FullTrackName{Namespace{"a", "b"}, "v"}, Parameters: Parameters{
			ObjectDeliveryTimeout: new(uint64(1000)), NewGroupRequest: new(uint64(0)),
			Filter: &Filter{Type: FilterAbsoluteRange, Start: Location{100, 2}, EndGroupDelta: 5},
		}},
		wire: "03 0017 4040 02 01 61 01 62 01 76 03 02 43e8 1f 06 04 4064 02 4069 11 00",
	},
	{
		name: "SUBSCRIBE_OK",
		message: &SubscribeOK{TrackAlias: 300, Parameters: Parameters{Expires: new(uint64(5))},
			Properties: Properties{0x04, 0x64}},
		wire:  "04 000a 4046 412c 01 08 05 04 4064",
		valid: []int{7},
	},
	{
		name:    "REQUEST_UPDATE",
		message: &RequestUpdate{RequestID: 2, Parameters: Parameters{Forward: new(true)}},
		wire:    "02 0006 02 4046 01 10 01",
	},
	{name: "UNSUBSCRIBE", message: &Unsubscribe{}, wire: "0a 0002 4046"},
	{
		name: "PUBLISH",
		message: &Publish{RequestID: 1, Track: FullTrackName{Namespace{"a"}, ""}, TrackAlias: 3,
			Parameters: Parameters{Forward: new(true)}, Properties: Properties{0x0e, 0x0a}},
		wire:  "1d 000b 01 01 01 61 00 03 01 10 01 0e 0a",
		valid: []int{9},
	},
	{
		name:    "PUBLISH_DONE",
		message: &PublishDone{Status: DoneTooFarBehind, StreamCount: UnknownStreamCount, Reason: "end"},
		wire:    "0b 000f 4046 06 ffffffffffffffff 03 656e64",
	},
	{
		name: "FETCH",
		message: &Fetch{RequestID: 4, FetchType: FetchStandalone, Track: FullTrackName{Namespace{"a"}, "v"},
			Start: Location{1, 2}, End: Location{100, 0}, Parameters: Parameters{SubscriberPriority: new(uint8(1))}},
		wire: "16 000f 04 01 01 01 61 01 76 01 02 4064 00 01 20 01",
	},
	{
		name:    "joining FETCH",
		message: &Fetch{RequestID: 4, FetchType: FetchRelativeJoining, JoiningRequestID: 2, JoiningStart: 100},
		wire:    "16 0006 04 02 02 4064 00",
	},
	{
		name: "FETCH_OK", message: &FetchOK{EndOfTrack: true, End: Location{100, 5}},
		wire: "18 0007 4046 01 4064 05 00",
	},
	{name: "FETCH_CANCEL", message: &FetchCancel{}, wire: "17 0002 4046"},
	{
		name: "TRACK_STATUS", message: &TrackStatus{RequestID: 4, Track: FullTrackName{Namespace{"a"}, "v"}},
		wire: "0d 0007 04 01 01 61 01 76 00",
	},
	{
		name: "PUBLISH_NAMESPACE", message: &PublishNamespace{RequestID: 4, Namespace: Namespace{"a"}},
		wire: "06 0005 04 01 01 61 00",
	},
	{name: "NAMESPACE", message: &NamespaceAdded{Suffix: Namespace{"a"}}, wire: "08 0003 01 01 61"},
	{name: "PUBLISH_NAMESPACE_DONE", message: &NamespaceWithdrawn{}, wire: "09 0002 4046"},
	{name: "NAMESPACE_DONE", message: &NamespaceDone{Suffix: Namespace{"a"}}, wire: "0e 0003 01 01 61"},
	{
		name: "PUBLISH_NAMESPACE_CANCEL", message: &NamespaceRevoked{Code: RequestUninterested, Reason: "x"},
		wire: "0c 0005 4046 20 01 78",
	},
	{
		name: "SUBSCRIBE_NAMESPACE", message: &SubscribeNamespace{RequestID: 4, Prefix: Namespace{"a"}},
		wire: "11 0006 04 01 01 61 01 00",
	},
	{
		name: "SUBSCRIBE_NAMESPACE for tracks",
		message: &SubscribeTracks{RequestID: 4, Prefix: Namespace{"a"},
			Parameters: Parameters{Forward: new(false)}},
		wire: "11 0008 04 01 01 61 00 01 10 00",
	},
}

// TestMisplacedParameters checks that parameters of other messages are ignored (draft-16 §9.2.2).
func TestMisplacedParameters(t *testing.T) {
	m, err := ParseMessage(Draft16, MessageTrackStatus, unhex("00 00 00 03 09 02 01 02 07 01 10 05"))
	require.NoError(t, err)
	require.Equal(t, &TrackStatus{Track: FullTrackName{Namespace{}, ""}}, m)
}

// TestBothOptions reads a form that this package does not send.
func TestBothOptions(t *testing.T) {
	m, err := ParseMessage(Draft16, subscribeNamespace16, unhex("02 00 02 00"))
	require.NoError(t, err)
	require.Equal(t, &SubscribeNamespace{RequestID: 2, Prefix: Namespace{}, WithTracks: true}, m)
}

// TestReplacedInDraft16 checks the substitutes for codes and messages that draft-16 does not have.
func TestReplacedInDraft16(t *testing.T) {
	for _, tc := range []struct {
		message Message
		wire    string
	}{
		{&RequestError{Code: RequestExcessiveLoad, RetryInterval: 5}, "05 0004 00 00 05 00"},
		{&RequestError{Code: RequestRedirect, Redirect: &Redirect{URI: "moqt://b"}}, "05 0004 00 10 00 00"},
		{&PublishDone{Status: DoneExcessiveLoad}, "0b 0004 00 06 00 00"},
		{&PublishDone{Status: DoneExpired}, "0b 0004 00 05 00 00"},
		{&Subscribe{Parameters: Parameters{ObjectDeliveryTimeout: new(uint64(0)), FillTimeout: new(uint64(1))}},
			"03 0004 00 00 00 00"},
		{&SubscribeOK{Properties: Properties{0x02, 0x00, 0x02, 0x05}}, "04 0005 00 00 00 04 05"},
		{&RequestOK{Properties: Properties{0x04, 0x05}}, "07 0002 00 00"},
		{&Goaway{Timeout: 5, RequestID: new(uint64(1))}, "10 0001 00"},
		{&Fetch{FetchType: FetchStandalone, Track: FullTrackName{Namespace{}, ""}, End: MaxLocation},
			"16 0010 00 01 00 00 00 00 ffffffffffffffff 00 00"},
		{&Subscribe{Parameters: Parameters{Filter: &Filter{
			Type: FilterAbsoluteRange, Start: Location{5, 6}, EndGroupDelta: maxQUICVarint,
		}}}, "03 0009 00 00 00 01 21 03 03 05 06"},
		{&Setup{HopID: new(uint64(1)), RelayHops: new(uint64(1)), RequestHops: true, MaxFilterRanges: 3}, "20 0001 00"},
	} {
		b, err := AppendMessage(nil, Draft16, tc.message)
		require.NoError(t, err)
		require.Equal(t, unhex(tc.wire), b)
	}
	for _, m := range []Message{
		&PublishBlocked{}, &StateNotify{}, &Subscribe{RequestID: maxQUICVarint + 1},
		&Subscribe{Parameters: Parameters{Filter: &Filter{Type: FilterRelativeStart, Groups: 2}}},
	} {
		_, err := AppendMessage(nil, Draft16, m)
		require.Error(t, err, "%T", m)
	}
}

// TestMalformedKeepsItsRequest checks that it is known whose track is malformed, and that other messages follow.
func TestMalformedKeepsItsRequest(t *testing.T) {
	r := NewReader(bytes.NewReader(unhex("04 0008 4046 00 00 0b020440"+"0a 0002 4046")), Draft16)
	_, err := r.Read()
	var track *MalformedTrackError
	require.ErrorAs(t, err, &track)
	require.EqualValues(t, 70, r.Reference().RequestID)
	m, err := r.Read()
	require.NoError(t, err)
	require.Equal(t, &Unsubscribe{}, m)
}
