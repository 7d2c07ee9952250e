package qlog_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go/qlogwriter"
	"github.com/quic-go/quic-go/qlogwriter/jsontext"
	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/qlog"
)

// fields are those of a type of the draft: a name is required unless it ends in "?".
type fields string

// has reports what a value has too little or too much, or "".
func (f fields) has(v map[string]any) (wrong string) {
	left := maps.Clone(v)
	for name := range strings.FieldsSeq(string(f)) {
		optional := strings.HasSuffix(name, "?")
		name = strings.TrimSuffix(name, "?")
		if _, ok := left[name]; !ok && !optional {
			return "lacks " + name
		}
		delete(left, name)
	}
	if len(left) > 0 {
		return "has " + strings.Join(slices.Sorted(maps.Keys(left)), ", ")
	}
	return ""
}

// events are the types of the draft's events.
var events = map[string]fields{
	"control_message": "stream_id length? message raw?",
	"stream_type_set": "owner? stream_id stream_type",
	"subgroup_header": "stream_id track_alias group_id subgroup_id_mode subgroup_id? publisher_priority? " +
		"contains_end_of_group properties_present",
	"fetch_header": "stream_id request_id",
	"object_datagram": "track_alias group_id object_id? publisher_priority? properties_length? properties? " +
		"object_status? object_payload? end_of_group",
}

// messages are the draft's types of control messages, and those of later versions.
var messages = map[string]fields{
	"setup":         "type setup_options?",
	"goaway":        "type new_session_uri timeout",
	"request_ok":    "type request_id number_of_parameters parameters?",
	"request_error": "type request_id error_code retry_interval reason? reason_bytes?",
	"subscribe": "type request_id required_request_id_delta track_namespace track_name number_of_parameters " +
		"parameters?",
	"subscribe_ok":   "type request_id track_alias number_of_parameters parameters? track_properties?",
	"request_update": "type request_id required_request_id_delta existing_request_id number_of_parameters parameters?",
	"publish": "type request_id required_request_id_delta track_namespace track_name track_alias " +
		"number_of_parameters parameters? track_properties?",
	"publish_done": "type request_id status_code stream_count reason? reason_bytes?",
	"fetch": "type request_id required_request_id_delta fetch_type standalone_fetch? joining_fetch? " +
		"relative_fetch? number_of_parameters parameters?",
	"fetch_ok": "type request_id end_of_track end_location number_of_parameters parameters? track_properties?",
	"track_status": "type request_id required_request_id_delta track_namespace track_name number_of_parameters " +
		"parameters?",
	"publish_namespace": "type request_id required_request_id_delta track_namespace number_of_parameters parameters?",
	"namespace":         "type track_namespace_suffix",
	"namespace_done":    "type track_namespace_suffix",
	"subscribe_namespace": "type request_id required_request_id_delta track_namespace_prefix subscribe_options " +
		"number_of_parameters parameters?",
	"subscribe_tracks": "type request_id required_request_id_delta track_namespace_prefix subscribe_options " +
		"number_of_parameters parameters?",
	"publish_blocked":      "type track_namespace_suffix track_name",
	"publish_state_notify": "type request_id number_of_parameters parameters?",
}

// recorder keeps events. It implements [qlogwriter.Trace].
type recorder struct {
	t    *testing.T
	text string
	name string
	data map[string]any
}

func (r *recorder) AddProducer() qlogwriter.Recorder { return r }
func (r *recorder) Close() error                     { return nil }

func (r *recorder) RecordEvent(e qlogwriter.Event) {
	var b bytes.Buffer
	require.NoError(r.t, e.Encode(jsontext.NewEncoder(&b), time.Time{}))
	r.text, r.name, r.data = b.String(), e.Name(), nil
	require.NoError(r.t, json.Unmarshal(b.Bytes(), &r.data), b.String())
	kind := strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(e.Name(), "moqt:"), "_parsed"), "_created")
	require.Contains(r.t, events, kind)
	require.Empty(r.t, events[kind].has(r.data), r.text)
}

var (
	track      = moqt.FullTrackName{Namespace: moqt.Namespace{"live", "\xff"}, Name: "video"}
	secret     = []byte("sesame")
	token      = moqt.Token{AliasType: moqt.AliasUseValue, Type: 7, Value: secret}
	parameters = moqt.Parameters{
		AuthorizationTokens:   []moqt.Token{token, {AliasType: moqt.AliasUse, Alias: 3}},
		ObjectDeliveryTimeout: new(uint64(5)),
		RendezvousTimeout:     new(uint64(6)), SubscriberPriority: new(uint8(7)), GroupOrder: new(moqt.Descending),
		Filter: &moqt.Filter{
			Type: moqt.FilterAbsoluteRange, Start: moqt.Location{Group: 1, Object: 2}, EndGroupDelta: 3,
		},
		Expires: new(uint64(8)), LargestObject: &moqt.Location{Group: 9, Object: 10}, Forward: new(true),
		NewGroupRequest: new(uint64(11)),
	}
)

func trackProperties(t *testing.T) moqt.Properties {
	p, err := moqt.NewProperties(moqt.KeyValuePair{Type: 0x30, Value: 1}, moqt.KeyValuePair{Type: 0x41, Bytes: secret})
	require.NoError(t, err)
	return p
}

// TestMessages has the fields of all messages that the draft names, and none of the secrets that are in them.
func TestMessages(t *testing.T) {
	r := &recorder{t: t}
	q := qlog.New(r)
	seen := make(map[string]bool)
	properties := trackProperties(t)
	for _, m := range []moqt.Message{
		&moqt.Setup{
			Path: new("/a?token=sesame"), Authority: new("relay.example"), AuthorizationTokens: []moqt.Token{token},
			MaxAuthTokenCacheSize: 1, Implementation: "x", Unknown: []moqt.KeyValuePair{{Type: 0x7f, Bytes: secret}},
		},
		&moqt.Goaway{NewSessionURI: "https://relay.example/?sesame", Timeout: 1},
		&moqt.RequestOK{Parameters: parameters, Properties: properties},
		&moqt.RequestError{Code: 1, RetryInterval: 2, Reason: "no\xff"},
		&moqt.Subscribe{RequestID: 2, Track: track, Parameters: parameters},
		&moqt.SubscribeOK{TrackAlias: 1, Parameters: parameters, Properties: properties},
		&moqt.RequestUpdate{RequestID: 4, Parameters: parameters},
		&moqt.Publish{RequestID: 6, Track: track, TrackAlias: 2, Parameters: parameters, Properties: properties},
		&moqt.PublishDone{Status: 1, StreamCount: moqt.UnknownStreamCount, Reason: "done"},
		&moqt.Fetch{RequestID: 8, FetchType: moqt.FetchStandalone, Track: track, End: moqt.Location{Group: 1}},
		&moqt.Fetch{RequestID: 8, FetchType: moqt.FetchRelativeJoining, JoiningRequestID: 2, JoiningStart: 1},
		&moqt.Fetch{RequestID: 8, FetchType: moqt.FetchAbsoluteJoining, JoiningRequestID: 2, JoiningStart: 1},
		&moqt.Fetch{RequestID: 8, FetchType: moqt.FetchRelative, Track: track, JoiningStart: 1},
		&moqt.FetchOK{EndOfTrack: true, End: moqt.Location{Group: 1}, Properties: properties},
		&moqt.TrackStatus{RequestID: 10, Track: track, Parameters: parameters},
		&moqt.PublishNamespace{RequestID: 12, Namespace: track.Namespace, Parameters: parameters},
		&moqt.NamespaceAdded{Suffix: track.Namespace}, &moqt.NamespaceDone{Suffix: track.Namespace},
		&moqt.SubscribeNamespace{RequestID: 14, Prefix: track.Namespace, WithTracks: true, Parameters: parameters},
		&moqt.SubscribeTracks{RequestID: 16, Prefix: track.Namespace, Parameters: parameters},
		&moqt.PublishBlocked{Suffix: track.Namespace, TrackName: track.Name},
		&moqt.StateNotify{Parameters: parameters},
	} {
		q.Message(qlog.Parsed, 4, 2, m)
		require.Equal(t, "moqt:control_message_parsed", r.name)
		message := r.data["message"].(map[string]any)
		name := message["type"].(string)
		seen[name] = true
		require.Contains(t, messages, name)
		require.Empty(t, messages[name].has(message), r.text)
		require.NotContains(t, r.text, "sesame")
		require.NotContains(t, r.text, "736573616d65")
	}
	require.Len(t, seen, len(messages))
	requireAll(t, seen)
}

// requireAll expects all types of messages, but for those that are not in versions after draft-18.
func requireAll(t *testing.T, seen map[string]bool) {
	former := []string{
		"fetch_cancel", "max_request_id", "publish_namespace_cancel", "publish_namespace_done", "requests_blocked",
		"unsubscribe",
	}
	for typ := range moqt.MessageType(0x10000) {
		name := strings.ToLower(typ.String())
		if !strings.HasPrefix(name, "message 0x") && !slices.Contains(former, name) {
			require.Contains(t, seen, name)
		}
	}
}

func TestParameters(t *testing.T) {
	r := &recorder{t: t}
	q := qlog.New(r)
	q.Message(qlog.Created, 4, 2, &moqt.Subscribe{RequestID: 2, Track: track, Parameters: parameters})
	require.Equal(t, "moqt:control_message_created", r.name)
	require.JSONEq(t, `{"stream_id": 4, "message": {
		"type": "subscribe", "request_id": 2, "required_request_id_delta": 0,
		"track_namespace": [{"value": "live"}, {"value_bytes": "ff"}], "track_name": {"value": "video"},
		"number_of_parameters": 11, "parameters": [
			{"name": "authorization_token", "alias_type": 3, "token_type": 7},
			{"name": "authorization_token", "alias_type": 2, "token_alias": 3},
			{"name": "delivery_timeout", "value": 5}, {"name": "rendezvous_timeout", "value": 6},
			{"name": "subscriber_priority", "value": 7}, {"name": "group_order", "value": 2},
			{"name": "subscription_filter", "value": {
				"filter_type": 4, "start_location": {"group": 1, "object": 2}, "end_group_delta": 3}},
			{"name": "expires", "value": 8}, {"name": "largest_object", "value": {"group": 9, "object": 10}},
			{"name": "forward", "value": 1}, {"name": "new_group_request", "value": 11}]}}`, r.text)
	q.Message(qlog.Created, 4, 0, &moqt.Setup{
		Path: new("/a?token=sesame"), AuthorizationTokens: []moqt.Token{token},
		Unknown: []moqt.KeyValuePair{{Type: 0x7e, Value: 5}, {Type: 0x7f, Bytes: secret}},
	})
	require.JSONEq(t, `{"stream_id": 4, "message": {"type": "setup", "setup_options": [
		{"name": "path", "value": "/a"},
		{"name": "authorization_token", "alias_type": "use_value", "token_type": 7},
		{"name": "unknown", "name_bytes": 126, "value": 5}, {"name": "unknown", "name_bytes": 127, "length": 6}]}}`,
		r.text)
}

func TestData(t *testing.T) {
	r := &recorder{t: t}
	q := qlog.New(r)
	q.Subgroup(qlog.Created, 3, moqt.SubgroupHeader{
		TrackAlias: 1, GroupID: 2, SubgroupIDMode: moqt.SubgroupIDPresent, SubgroupID: 4, Priority: 5, EndOfGroup: true,
	})
	require.Equal(t, "moqt:subgroup_header_created", r.name)
	require.JSONEq(t, `{"stream_id": 3, "track_alias": 1, "group_id": 2, "subgroup_id_mode": 2, "subgroup_id": 4,
		"publisher_priority": 5, "contains_end_of_group": true, "properties_present": false}`, r.text)
	q.Subgroup(qlog.Parsed, 3, moqt.SubgroupHeader{TrackAlias: 1, DefaultPriority: true, HasProperties: true})
	require.Equal(t, "moqt:subgroup_header_parsed", r.name)
	require.JSONEq(t, `{"stream_id": 3, "track_alias": 1, "group_id": 0, "subgroup_id_mode": 0,
		"contains_end_of_group": false, "properties_present": true}`, r.text)
	q.Fetch(qlog.Parsed, 7, 8)
	require.Equal(t, "moqt:fetch_header_parsed", r.name)
	require.JSONEq(t, `{"stream_id": 7, "request_id": 8}`, r.text)
	q.Datagram(qlog.Parsed, &moqt.ObjectDatagram{
		TrackAlias: 1, Location: moqt.Location{Group: 2, Object: 3}, Priority: 4,
		Properties: trackProperties(t), Payload: secret,
	})
	require.Equal(t, "moqt:object_datagram_parsed", r.name)
	require.JSONEq(t, `{"track_alias": 1, "group_id": 2, "object_id": 3, "publisher_priority": 4,
		"properties_length": 10, "properties": [{"type": 48, "value": 1}, {"type": 65, "length": 6}],
		"object_payload": {"length": 6}, "end_of_group": false}`, r.text)
	q.Control(qlog.Parsed, 2)
	require.Equal(t, "moqt:stream_type_set", r.name)
	require.JSONEq(t, `{"owner": "remote", "stream_id": 2, "stream_type": "control"}`, r.text)
}

// TestNone records nothing, and allocates nothing.
func TestNone(t *testing.T) {
	q := qlog.New(nil)
	m := &moqt.Goaway{}
	o := &moqt.ObjectDatagram{}
	require.Zero(t, testing.AllocsPerRun(10, func() {
		q.Message(qlog.Parsed, 4, 2, m)
		q.Subgroup(qlog.Parsed, 4, moqt.SubgroupHeader{})
		q.Fetch(qlog.Parsed, 4, 2)
		q.Datagram(qlog.Parsed, o)
		q.Control(qlog.Parsed, 2)
	}))
}
