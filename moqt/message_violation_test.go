package moqt

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	violates   = SessionProtocolViolation
	formatting = SessionKeyValueFormattingError
	badToken   = SessionMalformedAuthToken
)

// field returns a length-prefixed field of n bytes in hexadecimal.
func field(n int) string {
	return fmt.Sprintf("%x", AppendVarint(nil, uint64(n))) + strings.Repeat("61", n)
}

// tokenOf returns a length-prefixed USE_VALUE token with a value of n bytes in hexadecimal.
func tokenOf(n int) string {
	return fmt.Sprintf("%x 03 00", AppendVarint(nil, uint64(2+n))) + strings.Repeat("61", n)
}

// messageViolations has a row for each case in which the draft closes the session because of the contents of a control
// message. Cases that depend on where it was received are in TestContextViolations.
var messageViolations = []struct {
	section string
	name    string
	typ     MessageType
	payload string
	want    SessionErrorCode
}{
	// Key-Value-Pairs, here as Setup Options and Track Properties.
	{"1.4.3", "option type above 2^64-1", MessageSetup, "ffffffffffffffffff 00 02", violates},
	{"1.4.3", "property type above 2^64-1", MessageSubscribeOK, "00 00 ffffffffffffffffff 00 01 00", violates},
	{"1.4.3", "option longer than 2^16-1", MessageSetup, "07 c10000", violates},
	{"1.4.3", "property longer than 2^16-1", MessagePublish, "00 00 00 00 00 0d c10000", violates},
	{"1.4.3", "option cut short", MessageSetup, "07 02 61", violates},
	{"1.4.3", "property cut short", MessageFetchOK, "00 00 00 00 0d 02 61", violates},
	// Reason Phrase.
	{"1.4.4", "reason longer than 1024", MessagePublishDone, "00 00 " + field(1025), violates},
	{"1.4.4", "reason longer than 1024", MessageRequestError, "00 00 " + field(1025), violates},
	// Track Namespace and Full Track Name.
	{"2.4.1", "33 fields", MessagePublishNamespace, "00 21" + strings.Repeat("0161", 33) + "00", violates},
	{"2.4.1", "empty field", MessageSubscribe, "00 01 00 00 00", violates},
	{"2.4.1", "empty field in a suffix", MessageNamespace, "02 01 61 00", violates},
	{"2.4.1", "namespace longer than 4096", MessageNamespaceDone, "02" + field(4096) + field(1), violates},
	{"2.4.1", "field longer than 4096", MessageNamespace, "01" + field(4097), violates},
	{"2.4.1", "track name longer than 4096", MessageTrackStatus, "00 00" + field(4097) + "00", violates},
	{"2.4.1", "full track name longer than 4096", MessageSubscribe, "00 01" + field(1) + field(4096) + "00", violates},
	{"2.4.1", "full track name of FETCH", MessageFetch, "00 01 01" + field(1) + field(4096) + "00 00 00 00 00",
		violates},
	{"2.4.1", "full track name of PUBLISH", MessagePublish, "00 01" + field(1) + field(4096) + "00 00", violates},
	{"2.4.1", "full track name of PUBLISH_BLOCKED", MessagePublishBlocked, "01" + field(1) + field(4096), violates},
	{"2.4.1", "full track name of a redirect", MessageRequestError, "34 00 00 00 01" + field(1) + field(4096),
		violates},
	{"10.18", "prefix of 33 fields", MessageSubscribeNamespace, "00 21" + strings.Repeat("0161", 33) + "00", violates},
	{"10.19", "prefix of 33 fields", MessageSubscribeTracks, "00 21" + strings.Repeat("0161", 33) + "00", violates},
	// Subscription Filters.
	{"5.1.2", "filter type 0", MessageSubscribe, "00 00 00 01 21 01 00", violates},
	{"5.1.2", "filter type 5", MessageSubscribe, "00 00 00 01 21 01 05", violates},
	{"5.1.2", "end group above 2^64-1", MessageSubscribe, "00 00 00 01 21 0c 04 ffffffffffffffffff 00 01", violates},
	{"5.1.2", "bytes after the filter", MessageSubscribe, "00 00 00 01 21 02 02 00", violates},
	{"5.1.2", "filter cut short", MessageRequestUpdate, "00 01 21 02 03 00", violates},
	// Control messages.
	{"10", "unknown message type", 0x7777, "", violates},
	{"10", "CLIENT_SETUP of older drafts", 0x20, "00", violates},
	{"10", "payload longer than the message", MessageGoaway, "00 00 00 00", violates},
	{"10", "payload longer than the message", MessageUnsubscribe, "00", violates},
	{"10", "payload shorter than the message", MessageSubscribe, "00 00", violates},
	{"10", "payload shorter than the message", MessageFetchOK, "", violates},
	// Message Parameters.
	{"10.2", "parameter type above 2^64-1", MessageSubscribe, "00 00 00 02 10 01 ffffffffffffffffff 00", violates},
	{"10.2", "unknown parameter", MessageSubscribe, "00 00 00 01 05 00", violates},
	{"10.2", "unknown parameter in the range of grease", MessageSubscribe, "00 00 00 01 809d 00", violates},
	{"10.2", "parameter twice", MessageSubscribe, "00 00 00 02 10 01 00 01", violates},
	{"10.2", "more parameters counted than present", MessageSubscribe, "00 00 00 02 10 01", violates},
	{"10.2", "fewer parameters counted than present", MessageSubscribe, "00 00 00 00 10 01", violates},
	{"10.2", "2^64-1 parameters", MessageSubscribe, "00 00 00 ffffffffffffffffff 10 01", violates},
	// Authorization tokens.
	{"10.2.2", "unknown alias type", MessageSubscribe, "00 00 00 01 03 01 04", formatting},
	{"10.2.2", "empty token", MessageSubscribe, "00 00 00 01 03 00", formatting},
	{"10.2.2", "alias missing", MessageFetch, "00 02 00 00 01 03 01 02", formatting},
	{"10.2.2", "type missing", MessagePublish, "00 00 00 00 01 03 01 03", formatting},
	{"10.2.2", "value after a USE_ALIAS", MessageSubscribe, "00 00 00 01 03 03 02 01 00", formatting},
	{"10.2.2", "unknown alias type in SETUP", MessageSetup, "03 01 04", formatting},
	{"10.2.2", "type missing in SETUP", MessageSetup, "03 02 01 00", formatting},
	{"10.2.2", "token longer than the message", MessageSubscribe, "00 00 00 01 03 05 02 01", violates},
	{"10.2.2", "17 tokens", MessageSubscribe, "00 00 00 11 03" + tokenOf(0) + strings.Repeat("00"+tokenOf(0), 16),
		badToken},
	{"10.2.2", "as many tokens as fit", MessageFetch, "00 02 00 00 b2c9 03" + tokenOf(0) +
		strings.Repeat("00"+tokenOf(0), 13_000), badToken},
	{"10.2.2", "tokens longer than 16 KiB", MessageRequestUpdate, "00 02 03" + tokenOf(8<<10) + "00" + tokenOf(8<<10+1),
		badToken},
	{"10.3.1.4", "17 tokens", MessageSetup, "03" + tokenOf(0) + strings.Repeat("00"+tokenOf(0), 16), badToken},
	{"10.3.1.4", "token longer than 16 KiB", MessageSetup, "03" + tokenOf(16<<10+1), badToken},
	// Ranges of values.
	{"10.2.8", "group order 0", MessageSubscribe, "00 00 00 01 22 00", violates},
	{"10.2.8", "group order 3", MessageFetch, "00 02 00 00 01 22 03", violates},
	{"10.2.12", "forward 2", MessagePublish, "00 00 00 00 01 10 02", violates},
	{"12.4", "default publisher priority 256", MessagePublish, "00 00 00 00 00 0e 8100", violates},
	{"12.5", "default publisher group order 0", MessageSubscribeOK, "00 00 22 00", violates},
	{"12.5", "default publisher group order 3", MessageSubscribeOK, "00 00 22 03", violates},
	{"12.5", "group order inside immutable properties", MessageSubscribeOK, "00 00 0b 02 22 03", violates},
	{"12.6", "dynamic groups 2", MessagePublish, "00 00 00 00 00 30 02", violates},
	// SETUP.
	{"10.3", "PATH twice", MessageSetup, "01 01 2f 00 01 2f", violates},
	{"10.3", "MAX_AUTH_TOKEN_CACHE_SIZE twice", MessageSetup, "04 01 00 01", violates},
	{"10.3", "AUTHORITY twice", MessageSetup, "05 01 61 00 01 61", violates},
	{"10.3", "MOQT_IMPLEMENTATION twice", MessageSetup, "07 01 61 00 01 61", violates},
	// draft-lcurley-moq-cluster.
	{"hops", "HOP_ID twice", MessageSetup, "c40b54 01 00 01", violates},
	{"hops", "RELAY_HOPS with two ids", MessageSetup, "c40b55 02 01 02", violates},
	{"hops", "RELAY_HOPS without an id", MessageSetup, "c40b55 00", violates},
	{"hops", "no hop", MessagePublishNamespace, "00 00 01 c40b57 00", violates},
	{"hops", "hop cut short", MessagePublishNamespace, "00 00 01 c40b57 02 01 80", violates},
	{"hops", "hop twice", MessageNamespace, "00 01 c40b57 03 05 06 05", violates},
	{"hops", "33 hops", MessageNamespace, "00 01 c40b57 21" + strings.Repeat("00", 33), violates},
	{"hops", "path longer than 33 hops can be", MessageNamespace, "00 01 c40b57 8121", violates},
	// GOAWAY, FETCH, FETCH_OK.
	{"10.4", "URI longer than 8192", MessageGoaway, field(8193) + "00", violates},
	{"10.12", "fetch type 0", MessageFetch, "00 00 00 00 00", violates},
	{"10.12", "fetch type 4", MessageFetch, "00 04 00 00 00", violates},
	{"10.13", "end of track 2", MessageFetchOK, "02 00 00 00", violates},
}

func TestMessageViolations(t *testing.T) {
	for _, tc := range messageViolations {
		t.Run(tc.section+" "+tc.name, func(t *testing.T) {
			_, err := ParseMessage(Draft18, tc.typ, unhex(tc.payload))
			requireCode(t, tc.want, err)
		})
	}
}

// TestParameterScopes tries every parameter in every message of every version, alone (draft §10.2.1).
func TestParameterScopes(t *testing.T) {
	// A message without parameters, up to and excluding Number of Parameters.
	messages := []struct {
		name    string
		typ     MessageType
		payload string
	}{
		{"SUBSCRIBE", MessageSubscribe, "00 00 00"},
		{"SUBSCRIBE_OK", MessageSubscribeOK, "00"},
		{"PUBLISH", MessagePublish, "00 00 00 00"},
		{"FETCH", MessageFetch, "00 02 00 00"},
		{"FETCH_OK", MessageFetchOK, "00 00 00"},
		{"TRACK_STATUS", MessageTrackStatus, "00 00 00"},
		{"PUBLISH_NAMESPACE", MessagePublishNamespace, "00 00"},
		{"SUBSCRIBE_NAMESPACE", MessageSubscribeNamespace, "00 00"},
		{"SUBSCRIBE_TRACKS", MessageSubscribeTracks, "00 00"},
		{"REQUEST_UPDATE", MessageRequestUpdate, "00"},
		{"REQUEST_OK", MessageRequestOK, ""},
		{"PUBLISH_STATE_NOTIFY", MessageStateNotify, ""},
	}
	const (
		hops = "SUBSCRIBE SUBSCRIBE_OK PUBLISH FETCH TRACK_STATUS PUBLISH_NAMESPACE SUBSCRIBE_NAMESPACE " +
			"SUBSCRIBE_TRACKS REQUEST_UPDATE"
		tokens = "PUBLISH SUBSCRIBE REQUEST_UPDATE SUBSCRIBE_NAMESPACE SUBSCRIBE_TRACKS PUBLISH_NAMESPACE " +
			"TRACK_STATUS FETCH"
		subscription = "SUBSCRIBE REQUEST_UPDATE"
		tracks       = " SUBSCRIBE_TRACKS"
		offers       = " PUBLISH SUBSCRIBE_TRACKS"
		ok           = " REQUEST_OK" // each of its aliases
		notify       = " PUBLISH_STATE_NOTIFY"
	)
	parameters := []struct {
		wire    string   // type and value
		allowed []string // where draft-18, draft-19 and so on allow it; the last holds for later ones
	}{
		{"02 00", []string{subscription + ok, subscription + ok + tracks, subscription + offers}},
		{"03 02 02 00", []string{tokens}},
		{"04 00", []string{"SUBSCRIBE"}},
		{"06 00", []string{subscription + ok, subscription + ok + tracks, subscription + offers}},
		{"08 00", []string{"SUBSCRIBE_OK PUBLISH" + ok}},
		{"09 00 00", []string{
			"SUBSCRIBE_OK PUBLISH" + ok, "SUBSCRIBE_OK PUBLISH" + ok, "SUBSCRIBE_OK PUBLISH" + ok + notify,
		}},
		{"0a 00", []string{"FETCH"}},
		{"10 00", []string{subscription + offers + ok, subscription + offers + ok, subscription + offers + notify}},
		{"20 00", []string{
			"FETCH " + subscription + ok, "FETCH " + subscription + ok + tracks, "FETCH " + subscription + offers,
		}},
		{"21", []string{subscription + ok, subscription + ok + tracks, "FETCH " + subscription + offers + notify}},
		{"22 01", []string{"SUBSCRIBE FETCH" + ok, "SUBSCRIBE FETCH" + offers, "SUBSCRIBE FETCH" + offers}},
		{"23 01 00", []string{"", "", subscription + tracks}},
		{"25 02 00 00", []string{"", "FETCH " + subscription + tracks, "FETCH " + subscription + tracks}},
		{"26 02 00 00", []string{"", "FETCH " + subscription + tracks, "FETCH " + subscription + tracks}},
		{"27 02 00 00", []string{"", "FETCH " + subscription + tracks, "FETCH " + subscription + tracks}},
		{"28 03 00 00 00", []string{"", "FETCH " + subscription + tracks, "FETCH " + subscription + tracks}},
		{"29 03 00 00 00", []string{"", "REQUEST_UPDATE" + tracks, "REQUEST_UPDATE" + tracks}},
		{"32 00", []string{subscription + ok, subscription + ok, subscription}},
		{"34 00", []string{"REQUEST_UPDATE"}},
		{"35 00", []string{"", "", "SUBSCRIBE TRACK_STATUS FETCH" + tracks}},
		{"c40b57 01 05", []string{hops}},
		{"c40b58 05", []string{"PUBLISH_NAMESPACE REQUEST_UPDATE"}},
		{"e0511ce4 05 06 07 08", []string{"SUBSCRIBE"}},
		{"e0511ce6 05 06 07 08", []string{"REQUEST_UPDATE"}},
	}
	require.Len(t, parameters, len(newest.wire().parameters))
	for _, v := range laterVersions() {
		for _, message := range messages {
			for _, parameter := range parameters {
				payload, value := message.payload, parameter.wire
				if message.typ == MessageFetch && v >= Draft20 {
					payload = "00 00 00"
				}
				if value == "21" {
					value = map[bool]string{true: "21 01 02", false: "21 05"}[v < Draft22]
				}
				t.Run(fmt.Sprintf("%d %s %s", v, message.name, value), func(t *testing.T) {
					_, err := ParseMessage(v, message.typ, unhex(payload+"01"+value))
					allowed := parameter.allowed[min(int(v-Draft18), len(parameter.allowed)-1)]
					if strings.Contains(" "+allowed+" ", " "+message.name+" ") {
						require.NoError(t, err)
					} else {
						requireCode(t, SessionProtocolViolation, err)
					}
				})
			}
		}
	}
}

// TestToleratedMessages parses messages that look wrong and must not close the session.
func TestToleratedMessages(t *testing.T) {
	for _, tc := range []struct {
		section string
		name    string
		typ     MessageType
		payload string
	}{
		{"10.3", "unknown options, repeated", MessageSetup, "809d 00 00 01 ff 01 05"},
		{"10.2.2", "AUTHORIZATION_TOKEN repeated", MessageSubscribe, "00 00 00 02 03 02 02 00 00 02 02 01"},
		{"10.2.2", "AUTHORIZATION_TOKEN repeated in SETUP", MessageSetup, "03 02 03 00 00 02 03 01"},
		{"14", "unknown error code", MessageRequestError, "809d 00 00"},
		{"14", "unknown status code", MessagePublishDone, "809d 00 00"},
		{"14", "unknown track property", MessagePublish, "00 00 00 00 00 809d 01 ff"},
		{"2.5.1", "unknown mandatory track property", MessageSubscribeOK, "00 00 c04000 00"},
		{"2.4.1", "namespace of no fields and empty name", MessageSubscribe, "00 00 00 00"},
		{"1.4.4", "reason of 1024", MessagePublishDone, "00 00 " + field(1024)},
		{"2.4.1", "32 fields", MessagePublishNamespace, "00 20" + strings.Repeat("0161", 32) + "00"},
		{"2.4.1", "namespace of 4096", MessageNamespace, "02" + field(4095) + field(1)},
		{"2.4.1", "full track name of 4096", MessageSubscribe, "00 01" + field(1) + field(4095) + "00"},
		{"hops", "32 hops without names", MessageNamespace, "00 01 c40b57 20" + strings.Repeat("00", 32)},
		{"hops", "OptionRequestHops of another value", MessageSetup, "e0511ce0 07"},
		{"10.4", "URI of 8192", MessageGoaway, field(8192) + "00"},
		{"5.1.2", "end group 2^64-1", MessageSubscribe, "00 00 00 01 21 0c 04 fffffffffffffffffe 00 01"},
		{"10.2.13", "largest values", MessageSubscribe, "00 00 00 01 32 ffffffffffffffffff"},
		{"1.4.1", "integers longer than necessary", MessageSubscribe, "8000 8000 c00000 ff0000000000000000"},
	} {
		t.Run(tc.section+" "+tc.name, func(t *testing.T) {
			_, err := ParseMessage(Draft18, tc.typ, unhex(tc.payload))
			require.NoError(t, err)
		})
	}
}

// TestMalformedTrackProperties has a row for each case in which the track is malformed and the session goes on (draft
// §12.7).
func TestMalformedTrackProperties(t *testing.T) {
	for _, tc := range []struct{ name, properties string }{
		{"immutable in immutable", "0b 02 0b 00"},
		{"immutable cut short", "0b 01 02"},
		{"immutable value cut short", "0b 03 0d 05 61"},
		{"immutable twice", "0b 00 00 00"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ParseMessage(Draft18, MessageSubscribeOK, unhex("00 00"+tc.properties))
			requireMalformed(t, err)
		})
	}
}

func TestFetchOKCheckStart(t *testing.T) {
	start := Location{5, 3}
	for _, tc := range []struct {
		end Location
		ok  bool
	}{
		{Location{5, 4}, true},
		{Location{5, 3}, true}, // an empty response, until draft-19
		{Location{5, 2}, false},
		{Location{5, 0}, true}, // the whole group
		{Location{6, 0}, true},
		{Location{6, 1}, true},
		{Location{4, 0}, false},
		{Location{4, 9}, false},
	} {
		for _, v := range Versions() {
			err := (&FetchOK{End: tc.end}).CheckStart(v, start)
			if tc.ok && (tc.end != start || v < Draft20) {
				require.NoError(t, err, tc.end)
			} else {
				requireCode(t, SessionProtocolViolation, err)
			}
		}
	}
}
