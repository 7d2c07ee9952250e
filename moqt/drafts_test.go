package moqt

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// draftGoldens are messages that came or changed after draft-18, and their encodings, computed by hand.
var draftGoldens = []struct {
	name         string
	message      Message
	wire         string
	since, until Version
	valid        []int
}{
	{
		name:    "SETUP with limits",
		message: &Setup{MaxFilterRanges: 16, Implementation: "x", MaxRequestUpdates: 300},
		wire:    "af00 0008 06 10 01 01 78 01 812c",
		since:   Draft19,
		valid:   []int{0, 2, 5},
	},
	{
		name: "SETUP with options that draft-18 does not know",
		message: &Setup{Unknown: []KeyValuePair{
			{Type: 0x06, Value: 16}, {Type: 0x06, Value: 17}, {Type: 0x08, Value: 1},
		}},
		wire:  "af00 0006 06 10 00 11 02 01",
		since: Draft18, until: Draft18,
		valid: []int{0, 2, 4},
	},
	{
		name:    "GOAWAY without request id",
		message: &Goaway{NewSessionURI: "moqt://b", Timeout: 3000},
		wire:    "10 000b 08 6d6f71743a2f2f62 8bb8",
		since:   Draft18,
	},
	{
		name: "SUBSCRIBE with range filters",
		message: &Subscribe{RequestID: 2, Track: FullTrackName{Namespace{}, "v"}, Parameters: Parameters{
			RangeFilters: RangeFilters{
				// The example of draft-20 §5.1.4: 3-5 and 10-15.
				{Type: ParameterSubgroupFilter, Ranges: []ValueRange{{3, 5}, {10, 15}}},
				{Type: ParameterSubgroupFilter, Set: 1, Ranges: []ValueRange{{7, top}}},
				{Type: ParameterObjectIDFilter, Ranges: []ValueRange{{0, 0}}},
				{Type: ParameterPriorityFilter, Ranges: []ValueRange{{0, 255}}},
				{
					Type: ParameterObjectPropertyFilter, Set: 255, Property: 0x3c,
					Ranges: []ValueRange{{1, 2}, {300, top}},
				},
			},
		}},
		wire: "03 0023 02 00 01 76 05" +
			"25 05 00 03 02 05 05" + "00 02 01 07" + "01 03 00 00 00" + "01 04 00 00 80ff" + "01 06 ff 3c 01 01 812a",
		since: Draft19,
	},
	{
		name: "SUBSCRIBE_TRACKS with the parameters of a subscription",
		message: &SubscribeTracks{RequestID: 5, Prefix: Namespace{"a"}, Parameters: Parameters{
			SubscriberPriority: new(uint8(9)), GroupOrder: new(Descending),
			RangeFilters: RangeFilters{
				{Type: ParameterTrackPropertyFilter, Property: 4, Ranges: []ValueRange{{5, 5}}},
			},
		}},
		wire:  "51 000f 05 01 01 61 03 20 09 02 02 07 04 00 04 05 00",
		since: Draft19,
	},
	{
		name: "REQUEST_UPDATE that removes a range filter",
		message: &RequestUpdate{RequestID: 6, Parameters: Parameters{RangeFilters: RangeFilters{
			{Type: ParameterPriorityFilter},
		}}},
		wire:  "02 0004 06 01 27 00",
		since: Draft19,
	},
	{
		name:    "REQUEST_OK to SUBSCRIBE_NAMESPACE",
		message: &RequestOK{Parameters: Parameters{Expires: new(uint64(5))}},
		wire:    "07 0003 01 08 05",
		since:   Draft18,
	},
	{
		name:    "PUBLISH_DONE with an unknown number of streams",
		message: &PublishDone{Status: DoneTrackEnded, StreamCount: UnknownStreamCount},
		wire:    "0b 000b 02 ffffffffffffffffff 00",
		since:   Draft20,
	},
	{
		name: "SUBSCRIBE with a fill",
		message: &Subscribe{RequestID: 2, Track: FullTrackName{Namespace{}, "v"}, Parameters: Parameters{
			Filter: &Filter{Type: FilterLargestObject},
			Fill: &Parameters{
				FillTimeout: new(uint64(9)), SubscriberPriority: new(uint8(200)),
				Filter: &Filter{Type: FilterRelativeStart, Groups: 1}, GroupOrder: new(Descending),
				RangeFilters: RangeFilters{{Type: ParameterObjectIDFilter, Ranges: []ValueRange{{1, 2}}}},
			},
			IncludeProperties: new(false),
		}},
		wire: "03 001c 02 00 01 76 03" + "21 02 00 00" +
			"02 0f 05 0a 09 16 c8 01 01 01 01 02 04 03 00 01 01" + "12 00",
		since: Draft20, until: Draft21,
	},
	{
		name: "SUBSCRIBE with a fill, its filters without a length",
		message: &Subscribe{RequestID: 2, Track: FullTrackName{Namespace{}, "v"}, Parameters: Parameters{
			Filter: &Filter{Type: FilterLargestObject},
			Fill:   &Parameters{Filter: &Filter{Type: FilterRelativeStart, Groups: 1}},
		}},
		wire:  "03 000d 02 00 01 76 02 21 05 02 04 01 21 01 01",
		since: Draft22,
	},
	{
		name: "SUBSCRIBE with a fill of everything",
		message: &Subscribe{Track: FullTrackName{Namespace{}, ""}, Parameters: Parameters{
			Fill: &Parameters{},
		}},
		wire:  "03 0007 00 00 00 01 23 01 00",
		since: Draft20,
	},
	{
		name: "FETCH of a range",
		message: &Fetch{
			RequestID: 4, FetchType: FetchStandalone, Track: FullTrackName{Namespace{"a"}, "v"},
			Start: Location{1, 2}, End: Location{3, 5}, Parameters: Parameters{FillTimeout: new(uint64(0))},
		},
		wire:  "16 000f 04 01 01 61 01 76 02 0a 00 17 04 01 02 02 04",
		since: Draft20, until: Draft21,
	},
	{
		name: "FETCH of a range that ends with a group",
		message: &Fetch{
			RequestID: 4, FetchType: FetchStandalone, Track: FullTrackName{Namespace{"a"}, "v"},
			Start: Location{1, 2}, End: Location{3, 0},
		},
		wire:  "16 000c 04 01 01 61 01 76 01 21 03 01 02 02",
		since: Draft20, until: Draft21,
	},
	{
		name: "FETCH of a range, without a length",
		message: &Fetch{
			RequestID: 4, FetchType: FetchStandalone, Track: FullTrackName{Namespace{"a"}, "v"},
			Start: Location{1, 2}, End: Location{3, 5}, Parameters: Parameters{IncludeProperties: new(true)},
		},
		wire:  "16 000f 04 01 01 61 01 76 02 21 04 01 02 02 04 14 01",
		since: Draft22,
	},
	{
		name: "FETCH of everything",
		message: &Fetch{
			FetchType: FetchStandalone, Track: FullTrackName{Namespace{}, ""}, End: Location{top, 0},
		},
		wire:  "16 0004 00 00 00 00",
		since: Draft20,
	},
	{
		name:    "FETCH of the current group",
		message: &Fetch{FetchType: FetchRelative, Track: FullTrackName{Namespace{}, ""}, JoiningStart: 1},
		wire:    "16 0007 00 00 00 01 21 01 01",
		since:   Draft20, // a length and a type of 1 look the same
	},
	{
		name:    "FETCH_OK with an end that is included",
		message: &FetchOK{End: Location{9, 5}},
		wire:    "18 0004 00 09 04 00",
		since:   Draft20,
	},
	{
		name:    "FETCH_OK with the end of a group",
		message: &FetchOK{End: Location{9, 0}},
		wire:    "18 000c 00 09 ffffffffffffffffff 00",
		since:   Draft20,
	},
	{
		name: "PUBLISH with the parameters of a subscription",
		message: &Publish{RequestID: 1, Track: FullTrackName{Namespace{"a"}, ""}, Parameters: Parameters{
			SubscriberPriority: new(uint8(9)), GroupOrder: new(Ascending),
		}},
		wire:  "1d 000b 01 01 01 61 00 00 02 20 09 02 01",
		since: Draft20,
		// Without the parameters, the rest would be Track Properties.
	},
	{
		name: "PUBLISH_STATE_NOTIFY",
		message: &StateNotify{Parameters{
			LargestObject: &Location{3, 200}, Forward: new(false),
		}},
		wire:  "22 0007 02 09 03 80c8 07 00",
		since: Draft20,
	},
	{
		name:    "REQUEST_UPDATE of SUBSCRIBE_TRACKS",
		message: &RequestUpdate{RequestID: 6, Parameters: Parameters{Forward: new(true)}},
		wire:    "02 0004 06 01 10 01",
		since:   Draft18,
	},
	{
		name: "TRACK_STATUS without properties",
		message: &TrackStatus{
			Track: FullTrackName{Namespace{}, "x"}, Parameters: Parameters{IncludeProperties: new(false)},
		},
		wire:  "0d 0007 00 00 01 78 01 35 00",
		since: Draft20,
	},
	{
		name:    "REQUEST_ERROR because of a filter",
		message: &RequestError{Code: RequestInvalidFilter},
		wire:    "05 0003 36 00 00",
		since:   Draft18,
	},
}

// draftViolations has a row for each case in which another draft than 18 closes the session because of the contents of
// a control message. since is the first version that does.
var draftViolations = []struct {
	section string
	name    string
	since   Version
	until   Version
	typ     MessageType
	payload string
	want    SessionErrorCode
}{
	{"10", "UNSUBSCRIBE", Draft19, 0, MessageUnsubscribe, "", violates},
	{"10", "PUBLISH_OK", Draft19, 0, MessagePublishOK, "00", violates},
	{"10", "PUBLISH_STATE_NOTIFY", Draft18, Draft19, MessageStateNotify, "00", violates},
	{"10.4", "GOAWAY with a request id", Draft19, 0, MessageGoaway, "00 00 02", violates},
	{"10.3.1.6", "MAX_FILTER_RANGES twice", Draft19, 0, MessageSetup, "06 01 00 01", violates},
	{"10.3.1.7", "MAX_REQUEST_UPDATES twice", Draft19, 0, MessageSetup, "08 01 00 01", violates},
	{"5.1.4", "range filter", Draft18, Draft18, MessageSubscribe, "00 00 00 01 25 02 00 00", violates},
	{"5.1.4", "range filter cut short", Draft19, 0, MessageSubscribe, "00 00 00 01 25 03 00 00", violates},
	{"5.1.4", "range cut short", Draft19, 0, MessageSubscribe, "00 00 00 01 25 02 00 80", violates},
	{"5.1.4", "property type cut short", Draft19, 0, MessageSubscribe, "00 00 00 01 28 01 00", violates},
	{"10.2.13", "TRACK_PROPERTY_FILTER in SUBSCRIBE", Draft19, 0, MessageSubscribe,
		"00 00 00 01 29 03 00 04 00", violates},
	{"10.2.15", "FILL_PARAMETERS", Draft18, Draft19, MessageSubscribe, "00 00 00 01 23 01 00", violates},
	{"10.2.15", "FILL_PARAMETERS in FETCH", Draft20, 0, MessageFetch, "00 00 00 01 23 01 00", violates},
	{"10.2.15", "FORWARD in FILL_PARAMETERS", Draft20, 0, MessageSubscribe, "00 00 00 01 23 03 01 10 01", violates},
	{"10.2.15", "a fill in a fill", Draft20, 0, MessageSubscribe, "00 00 00 01 23 04 01 23 01 00", violates},
	{"10.2.15", "TRACK_PROPERTY_FILTER in a fill", Draft20, 0, MessageSubscribe,
		"00 00 00 01 23 07 01 29 04 00 04 05 00", violates},
	{"10.2.15", "no number of parameters", Draft20, 0, MessageSubscribe, "00 00 00 01 23 00", violates},
	{"10.2.15", "bytes after the fill", Draft20, 0, MessageSubscribe, "00 00 00 01 23 02 00 00", violates},
	{"10.2.15", "parameter twice in a fill", Draft20, 0, MessageSubscribe,
		"00 00 00 01 23 05 02 20 01 00 01", violates},
	{"10.2.21", "INCLUDE_PROPERTIES 2", Draft20, 0, MessageSubscribe, "00 00 00 01 35 02", violates},
	{"10.2.21", "INCLUDE_PROPERTIES in PUBLISH", Draft20, 0, MessagePublish, "00 00 00 00 01 35 01", violates},
	{"10.2.9", "LOCATION_FILTER in FETCH", Draft18, Draft19, MessageFetch,
		"00 01 00 00 00 00 00 00 01 21 01 02", violates},
	{"10.2.9", "filter type 0", Draft18, Draft19, MessageSubscribe, "00 00 00 01 21 01 00", violates},
	{"10.2.9", "filter type 5", Draft18, Draft19, MessageSubscribe, "00 00 00 01 21 01 05", violates},
	{"10.2.9", "five fields", Draft20, Draft21, MessageSubscribe, "00 00 00 01 21 05 01 01 01 01 01", violates},
	{"10.2.9", "field cut short", Draft20, Draft21, MessageSubscribe, "00 00 00 01 21 01 80", violates},
	{"10.2.9", "end group above 2^64-1", Draft20, Draft21, MessageSubscribe,
		"00 00 00 01 21 0b ffffffffffffffffff 00 01", violates},
	{"9.20.9", "filter type 6", Draft22, 0, MessageSubscribe, "00 00 00 01 21 06", violates},
	{"9.20.9", "field missing", Draft22, 0, MessageSubscribe, "00 00 00 01 21 02 01", violates},
	{"9.20.9", "filter cut short in a fill", Draft22, 0, MessageSubscribe, "00 00 00 01 23 03 01 21 01", violates},
	{"9.20.9", "end group above 2^64-1", Draft22, 0, MessageSubscribe,
		"00 00 00 01 21 03 ffffffffffffffffff 00 01", violates},
	{"10.2.8", "GROUP_ORDER in PUBLISH", Draft18, Draft18, MessagePublish, "00 00 00 00 01 22 01", violates},
	{"10.2.7", "SUBSCRIBER_PRIORITY in PUBLISH", Draft18, Draft19, MessagePublish, "00 00 00 00 01 20 01", violates},
	{"10.10", "GROUP_ORDER in PUBLISH_STATE_NOTIFY", Draft20, 0, MessageStateNotify, "01 22 01", violates},
	{"10.12", "FETCH of draft-18", Draft20, 0, MessageFetch, "04 01 01 01 61 01 76 01 02 03 00 00", violates},
	// Draft-16.
	{"9.2", "unknown parameter", Draft16, Draft16, MessageSubscribe, "00 00 00 01 04 00", violates},
	{"9.2", "parameter twice", Draft16, Draft16, MessageSubscribe, "00 00 00 02 20 01 00 01", violates},
	{"9.2.2.2", "delivery timeout of 0", Draft16, Draft16, MessageSubscribe, "00 00 00 01 02 00", violates},
	{"9.2.2.3", "subscriber priority of 256", Draft16, Draft16, MessageSubscribe, "00 00 00 01 20 4100", violates},
	{"9.2.2.4", "group order 3", Draft16, Draft16, MessageSubscribe, "00 00 00 01 22 03", violates},
	{"9.2.2.5", "filter longer than its length", Draft16, Draft16, MessageSubscribe,
		"00 00 00 01 21 01 03 00 00", violates},
	{"9.2.2.5", "filter shorter than its length", Draft16, Draft16, MessageSubscribe,
		"00 00 00 01 21 02 02 00", violates},
	{"9.2.2.8", "forward 2", Draft16, Draft16, MessageSubscribe, "00 00 00 01 10 02", violates},
	{"5.1.2", "filter type 0", Draft16, Draft16, MessageSubscribe, "00 00 00 01 21 01 00", violates},
	{"5.1.2", "end group before the start", Draft16, Draft16, MessageSubscribe,
		"00 00 00 01 21 04 04 05 00 04", violates},
	{"9.3", "fewer setup parameters than counted", Draft16, Draft16, clientSetup16, "02 02 02", violates},
	{"9.3", "more setup parameters than counted", Draft16, Draft16, clientSetup16, "01 02 02 04 01", violates},
	{"9.3", "known setup parameter twice", Draft16, Draft16, clientSetup16, "02 02 02 00 02", violates},
	{"9.16", "fetch type 4", Draft16, Draft16, MessageFetch, "00 04 00", violates},
	{"9.25", "subscribe options 3", Draft16, Draft16, subscribeNamespace16, "00 00 03 00", violates},
	{"11", "delivery timeout of 0", Draft16, Draft16, MessageSubscribeOK, "00 00 00 02 00", violates},
	{"9", "SETUP of later drafts", Draft16, Draft16, MessageSetup, "", violates},
	{"9", "SUBSCRIBE_NAMESPACE of later drafts", Draft16, Draft16, MessageSubscribeNamespace, "00 00 00", violates},
}

func TestDraftViolations(t *testing.T) {
	for _, tc := range draftViolations {
		for _, v := range Versions() {
			if v < tc.since || tc.until != 0 && v > tc.until {
				continue
			}
			t.Run(tc.section+" "+tc.name, func(t *testing.T) {
				_, err := ParseMessage(v, tc.typ, unhex(tc.payload))
				requireCode(t, tc.want, err)
			})
		}
	}
}

// TestFilterForms encodes every filter in every version. Versions that have no form for it refuse.
func TestFilterForms(t *testing.T) {
	for _, tc := range []struct {
		filter                     Filter
		typed, counted, selfEnding string // "": it cannot be encoded
	}{
		{Filter{}, "05 03 00 00", "00", "00"},
		{Filter{Type: FilterLargestObject}, "01 02", "02 00 00", "05"},
		{Filter{Type: FilterRelativeStart}, "01 01", "01 00", "01 00"},
		{Filter{Type: FilterRelativeStart, Groups: 300}, "", "02 812c", "01 812c"},
		{Filter{Type: FilterAbsoluteStart}, "03 03 00 00", "00", "02 00 00"},
		{Filter{Type: FilterAbsoluteStart, Start: Location{0, 1}}, "03 03 00 01", "02 00 01", "02 00 01"},
		{Filter{Type: FilterAbsoluteRange, Start: Location{5, 6}, EndGroupDelta: 7}, "04 04 05 06 07", "03 05 06 07",
			"03 05 06 07"},
		{Filter{Type: FilterAbsoluteRange}, "04 04 00 00 00", "03 00 00 00", "03 00 00 00"},
		{Filter{Type: FilterObjectRange, Start: Location{5, 6}, EndGroupDelta: 7, EndObject: 8}, "", "04 05 06 07 08",
			"04 05 06 07 08"},
	} {
		for _, v := range laterVersions() {
			want := tc.selfEnding
			if v < Draft22 {
				want = tc.counted
			}
			if v < Draft20 {
				want = strings.Replace(tc.typed, "05 03 00 00", "03 03 00 00", 1)
			}
			m := &Subscribe{Track: FullTrackName{Namespace{}, ""}, Parameters: Parameters{Filter: &tc.filter}}
			b, err := AppendMessage(nil, v, m)
			if want == "" {
				require.Error(t, err, "%v in %s", tc.filter, v)
				continue
			}
			require.NoError(t, err)
			_, payload := split(b)
			require.Equal(t, unhex("00 00 00 01 21"+want), payload, "%v in %s", tc.filter, v)
			got, err := ParseMessage(v, MessageSubscribe, payload)
			require.NoError(t, err)
			f := got.(*Subscribe).Parameters.Filter
			for _, largest := range []*Location{nil, {}, {7, 3}} {
				require.Equal(t, tc.filter.Range(largest), f.Range(largest), "%v in %s", tc.filter, v)
			}
		}
	}
}

// TestFetchForms checks that a FETCH stands for the same range in all versions.
func TestFetchForms(t *testing.T) {
	for _, v := range laterVersions() {
		for _, r := range []Range{
			Everything, {Location{1, 2}, Location{1, 2}}, {Location{1, 0}, Location{1, top}},
			{Location{1, 2}, MaxLocation}, {Location{0, 0}, Location{0, 0}},
		} {
			m := &Fetch{FetchType: FetchStandalone, Start: r.Start, End: r.FetchEnd()}
			b, err := AppendMessage(nil, v, m)
			require.NoError(t, err)
			got, err := NewReader(bytes.NewReader(b), v).Read()
			require.NoError(t, err)
			f := got.(*Fetch)
			require.Equal(t, r, FetchRange(f.Start, f.End), v)
		}
		_, err := AppendMessage(nil, v, &Fetch{FetchType: FetchRelative})
		require.Equal(t, v.HasJoiningFetch(), err != nil, v)
		_, err = AppendMessage(nil, v, &Fetch{FetchType: FetchRelativeJoining})
		require.Equal(t, !v.HasJoiningFetch(), err != nil, v)
	}
	m := &Fetch{FetchType: FetchRelative, JoiningStart: 2}
	require.Equal(t, Range{Location{6, 0}, Location{7, 3}}, m.RelativeRange(Location{7, 3}))
	m.JoiningStart = 0
	require.True(t, m.RelativeRange(Location{7, 3}).Empty())
}

// TestCodesOfOlderVersions checks that a relay does not pass on codes that the version does not have.
func TestCodesOfOlderVersions(t *testing.T) {
	for _, v := range laterVersions() {
		b, err := AppendMessage(nil, v, &RequestError{Code: RequestDuplicateSubscription})
		require.NoError(t, err)
		require.Equal(t, v == Draft18, b[3] == 0x19, v)
		b, err = AppendMessage(nil, v, &RequestError{Code: RequestInvalidJoiningRequestID})
		require.NoError(t, err)
		require.Equal(t, v < Draft20, b[3] == 0x32, v)
		b, err = AppendMessage(nil, v, &PublishDone{Status: DoneSubscriptionEnded})
		require.NoError(t, err)
		require.Equal(t, v < Draft20, b[3] == 0x3, v)
	}
}

// TestDraftScopes checks where the parameters of later versions may appear that depend on the stream.
func TestDraftScopes(t *testing.T) {
	forward := &RequestUpdate{Parameters: Parameters{Forward: new(true)}}
	expires := &RequestOK{Parameters: Parameters{Expires: new(uint64(1))}}
	priority := &RequestOK{Parameters: Parameters{SubscriberPriority: new(uint8(1))}}
	order := &RequestOK{Parameters: Parameters{GroupOrder: new(Ascending)}}
	notify := &StateNotify{}
	on := func(stream MessageType) Context { return Context{Stream: stream, FromResponder: true} }
	from := func(stream MessageType) Context { return Context{Stream: stream} }
	for _, tc := range []struct {
		name         string
		context      Context
		message      Message
		since, until Version // the versions that allow it
	}{
		{"FORWARD for SUBSCRIBE_TRACKS", from(MessageSubscribeTracks), forward, Draft20, newest},
		{"FORWARD for SUBSCRIBE_NAMESPACE", from(MessageSubscribeNamespace), forward, newest + 1, newest},
		{"EXPIRES in SUBSCRIBE_NAMESPACE_OK", on(MessageSubscribeNamespace), expires, Draft19, newest},
		{"EXPIRES in PUBLISH_OK", on(MessagePublish), expires, Draft18, newest},
		{"SUBSCRIBER_PRIORITY in PUBLISH_OK", on(MessagePublish), priority, Draft18, Draft19},
		{"GROUP_ORDER in PUBLISH_OK", on(MessagePublish), order, Draft18, Draft18},
		{"PUBLISH_STATE_NOTIFY to SUBSCRIBE", on(MessageSubscribe), notify, Draft20, newest},
		{"PUBLISH_STATE_NOTIFY after PUBLISH", from(MessagePublish), notify, Draft20, newest},
		{"PUBLISH_STATE_NOTIFY of the subscriber", from(MessageSubscribe), notify, newest + 1, newest},
		{"PUBLISH_STATE_NOTIFY to PUBLISH", on(MessagePublish), notify, newest + 1, newest},
		{"PUBLISH_STATE_NOTIFY to FETCH", on(MessageFetch), notify, newest + 1, newest},
		{"PUBLISH_STATE_NOTIFY first", Context{}, notify, newest + 1, newest},
	} {
		for _, v := range laterVersions() {
			err := tc.context.Check(v, tc.message)
			if tc.since <= v && v <= tc.until {
				require.NoError(t, err, "%s in %s", tc.name, v)
			} else {
				requireCode(t, violates, err)
			}
		}
	}
}

// TestTimedOutRange checks the marker that only the newer versions have.
func TestTimedOutRange(t *testing.T) {
	for _, v := range laterVersions() {
		e := NewFetchEncoder(v, Ascending)
		b, err := e.AppendObject(nil, &FetchObject{Kind: FetchKindTimedOut, Location: Location{1, 2}})
		require.NoError(t, err)
		want, kind := "820c 01 02", FetchKindTimedOut
		if v < Draft20 {
			want, kind = "810c 01 02", FetchKindUnknown
		}
		require.Equal(t, unhex(want), b)
		items, err := parseFetch(NewFetchParser(v, Ascending, 0), [][]byte{b})
		require.NoError(t, err)
		require.Equal(t, kind, items[0].Kind)
		_, err = parseFetch(NewFetchParser(v, Ascending, 0), [][]byte{unhex("820c 01 02")})
		if v < Draft20 {
			requireCode(t, violates, err)
		} else {
			require.NoError(t, err)
		}
	}
}
