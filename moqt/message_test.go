package moqt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sluice/internal/testlimit"
)

// messageGoldens are messages and their encodings since draft-18, computed by hand from the formats in draft §10.
// draftGoldens has what later drafts added or changed.
var messageGoldens = []struct {
	name    string
	message Message
	wire    string
	until   Version // the last version with this encoding; 0: the newest
	// Lengths of truncated payloads that are valid messages, because the missing fields are optional.
	valid []int
}{
	{
		name: "SETUP",
		message: &Setup{
			Path:                  new("/live?x"),
			Authority:             new("example.com"),
			AuthorizationTokens:   []Token{{AliasType: AliasUseValue, Value: []byte("tok")}},
			MaxAuthTokenCacheSize: 1024,
			Implementation:        "sluice",
			Unknown:               []KeyValuePair{{Type: 0x9d, Bytes: []byte{0xbe, 0xef}}},
		},
		wire: "af00 002d" +
			"01 07 2f6c6976653f78" +
			"02 05 03 00 746f6b" +
			"01 8400" +
			"01 0b 6578616d706c652e636f6d" +
			"02 06 736c75696365" +
			"8096 02 beef",
		valid: []int{0, 9, 16, 19, 32, 40},
	},
	{
		name: "SETUP of a relay",
		message: &Setup{
			HopID:       new(uint64(0x1234)),
			RelayHops:   new(uint64(0x1234)),
			RelayCost:   new(uint64(2)),
			RequestHops: true,
			Renditions:  true,
		},
		wire:  "af00 0012 c40b54 9234 01 02 9234 01 02 e04d118a 01 02 02",
		valid: []int{0, 5, 9, 11, 16},
	},
	{
		name:    "GOAWAY",
		message: &Goaway{NewSessionURI: "moqt://b", Timeout: 3000, RequestID: new(uint64(4))},
		wire:    "10 000c 08 6d6f71743a2f2f62 8bb8 04",
		until:   Draft18,
		valid:   []int{11}, // without Request ID
	},
	{
		name:    "GOAWAY on a request stream",
		message: &Goaway{},
		wire:    "10 0002 00 00",
	},
	{
		name: "SUBSCRIBE",
		message: &Subscribe{
			RequestID: 2,
			Track:     FullTrackName{Namespace{"a", "bc"}, "v"},
			Parameters: Parameters{
				ObjectDeliveryTimeout:   new(uint64(500)),
				AuthorizationTokens:     []Token{{AliasType: AliasUse, Alias: 9}},
				RendezvousTimeout:       new(uint64(10)),
				SubgroupDeliveryTimeout: new(uint64(0)),
				Forward:                 new(false),
				SubscriberPriority:      new(uint8(255)),
				Filter:                  &Filter{Type: FilterAbsoluteRange, Start: Location{5, 6}, EndGroupDelta: 7},
				GroupOrder:              new(Descending),
				NewGroupRequest:         new(uint64(0)),
			},
		},
		wire: "03 0023 02 02 01 61 02 6263 01 76 09" +
			"02 81f4" + "01 02 02 09" + "01 0a" + "02 00" + "0a 00" + "10 ff" + "01 04 04 05 06 07" + "01 02" + "10 00",
		until: Draft19,
	},
	{
		name: "SUBSCRIBE with filters without locations and repeated tokens",
		message: &Subscribe{
			Track: FullTrackName{Namespace{}, ""},
			Parameters: Parameters{
				AuthorizationTokens: []Token{
					{AliasType: AliasDelete, Alias: 1},
					{AliasType: AliasRegister, Alias: 2, Type: 3, Value: []byte{4}},
				},
				Filter: &Filter{Type: FilterLargestObject},
			},
		},
		wire:  "03 0011 00 00 00 03" + "03 02 00 01" + "00 04 01 02 03 04" + "1e 01 02",
		until: Draft19,
	},
	{
		name: "SUBSCRIBE of a rendition",
		message: &Subscribe{
			Track:      FullTrackName{Namespace{"a"}, "v"},
			Parameters: Parameters{Rendition: &Rendition{Set: 1, Bitrate: 5000, Width: 64, Height: 48}},
		},
		wire: "03 0010 00 01 01 61 01 76 01 e0511ce4 01 9388 40 30",
	},
	{
		name: "SUBSCRIBE_OK",
		message: &SubscribeOK{
			TrackAlias: 7,
			Parameters: Parameters{Expires: new(uint64(1000)), LargestObject: &Location{3, 200}},
			Properties: Properties{0x04, 0x05, 0x2c, 0x01},
		},
		wire:  "04 000d 07 02 08 83e8 01 03 80c8" + "04 05 2c 01",
		valid: []int{9, 11},
	},
	{
		name: "PUBLISH",
		message: &Publish{
			RequestID:  1,
			Track:      FullTrackName{Namespace{"a"}, ""},
			TrackAlias: 300,
			Parameters: Parameters{Forward: new(true)},
			Properties: Properties{0x0e, 0x0a},
		},
		wire:  "1d 000c 01 01 01 61 00 812c 01 10 01 0e 0a",
		valid: []int{10},
	},
	{
		name:    "PUBLISH_DONE",
		message: &PublishDone{Status: DoneTrackEnded, StreamCount: UnknownStreamCount, Reason: "end"},
		wire:    "0b 000e 02 ff3fffffffffffffff 03 656e64",
		until:   Draft19,
	},
	{
		name: "FETCH",
		message: &Fetch{
			RequestID:  4,
			FetchType:  FetchStandalone,
			Track:      FullTrackName{Namespace{"a"}, "v"},
			Start:      Location{1, 2},
			End:        Location{3, 0},
			Parameters: Parameters{FillTimeout: new(uint64(0))},
		},
		wire:  "16 000e 04 01 01 01 61 01 76 01 02 03 00 01 0a 00",
		until: Draft19,
	},
	{
		name: "FETCH, relative joining",
		message: &Fetch{
			RequestID:        6,
			FetchType:        FetchRelativeJoining,
			JoiningRequestID: 2,
			JoiningStart:     3,
			Parameters:       Parameters{SubscriberPriority: new(uint8(5)), GroupOrder: new(Ascending)},
		},
		wire:  "16 0009 06 02 02 03 02 20 05 02 01",
		until: Draft19,
	},
	{
		name:    "FETCH, absolute joining",
		message: &Fetch{RequestID: 8, FetchType: FetchAbsoluteJoining, JoiningRequestID: 2, JoiningStart: 17},
		wire:    "16 0005 08 03 02 11 00",
		until:   Draft19,
	},
	{
		name:    "FETCH_OK",
		message: &FetchOK{EndOfTrack: true, End: Location{9, 5}, Properties: Properties{0x0b, 0x02, 0x02, 0x07}},
		wire:    "18 0008 01 09 05 00 0b 02 02 07",
		until:   Draft19,
		valid:   []int{4},
	},
	{
		name: "TRACK_STATUS",
		message: &TrackStatus{
			Track: FullTrackName{Namespace{}, "x"},
			Parameters: Parameters{
				AuthorizationTokens: []Token{{AliasType: AliasUseValue, Type: 5, Value: []byte("k")}},
			},
		},
		wire: "0d 000a 00 00 01 78 01 03 03 03 05 6b",
	},
	{
		name:    "PUBLISH_NAMESPACE",
		message: &PublishNamespace{Namespace: Namespace{"live"}},
		wire:    "06 0008 00 01 04 6c697665 00",
	},
	{
		name: "PUBLISH_NAMESPACE with hops",
		message: &PublishNamespace{
			Namespace: Namespace{"live"}, Parameters: Parameters{HopPath: HopPath{0, 7}, RouteCost: new(uint64(1))},
		},
		wire: "06 0010 00 01 04 6c697665 02 c40b57 02 00 07 01 01",
	},
	{
		name:    "NAMESPACE",
		message: &NamespaceAdded{Suffix: Namespace{"x"}},
		wire:    "08 0003 01 01 78",
	},
	{
		name: "NAMESPACE with hops",
		message: &NamespaceAdded{
			Suffix: Namespace{"x"}, Parameters: &Parameters{HopPath: HopPath{7, 300}, RouteCost: new(uint64(5))},
		},
		wire:  "08 000d 01 01 78 02 c40b57 03 07 812c 01 05",
		valid: []int{3},
	},
	{
		name:    "NAMESPACE_DONE",
		message: &NamespaceDone{Suffix: Namespace{}},
		wire:    "0e 0001 00",
	},
	{
		name:    "SUBSCRIBE_NAMESPACE",
		message: &SubscribeNamespace{RequestID: 3, Prefix: Namespace{}},
		wire:    "50 0003 03 00 00",
	},
	{
		name: "SUBSCRIBE_TRACKS",
		message: &SubscribeTracks{
			RequestID: 5, Prefix: Namespace{"a"}, Parameters: Parameters{Forward: new(false)},
		},
		wire: "51 0007 05 01 01 61 01 10 00",
	},
	{
		name:    "PUBLISH_BLOCKED",
		message: &PublishBlocked{Suffix: Namespace{"b"}, TrackName: "c"},
		wire:    "0f 0005 01 01 62 01 63",
	},
	{
		name:    "REQUEST_UPDATE",
		message: &RequestUpdate{RequestID: 6, Parameters: Parameters{NamespacePrefix: &Namespace{"z"}}},
		wire:    "02 0006 06 01 34 01 01 7a",
	},
	{
		name: "REQUEST_UPDATE of a player",
		message: &RequestUpdate{RequestID: 6, Parameters: Parameters{
			Playback: &Playback{Buffered: 201, Dropped: 3, Width: 64, Height: 48},
		}},
		wire: "02 000b 06 01 e0511ce6 80c9 03 40 30",
	},
	{
		name:    "REQUEST_OK",
		message: &RequestOK{Parameters: Parameters{Expires: new(uint64(60_000))}},
		wire:    "07 0005 01 08 c0ea60",
	},
	{
		name: "REQUEST_OK to TRACK_STATUS",
		message: &RequestOK{
			Parameters: Parameters{LargestObject: &Location{0, 0}},
			Properties: Properties{0x06, 0x02},
		},
		wire:  "07 0006 01 09 00 00 06 02",
		valid: []int{4},
	},
	{
		name:    "REQUEST_ERROR",
		message: &RequestError{Code: RequestDoesNotExist, RetryInterval: 501, Reason: "no"},
		wire:    "05 0006 10 81f5 02 6e6f",
	},
	{
		name: "REQUEST_ERROR with redirect",
		message: &RequestError{
			Code:     RequestRedirect,
			Redirect: &Redirect{URI: "moqt://b", Track: FullTrackName{Namespace{"n"}, "t"}},
		},
		wire: "05 0011 34 00 00 08 6d6f71743a2f2f62 01 01 6e 01 74",
	},
}

// split takes the encoding of one message apart.
func split(b []byte) (MessageType, []byte) {
	typ, n, err := ParseVarint(b)
	if err != nil {
		panic(err)
	}
	payload := b[n+2:]
	if int(binary.BigEndian.Uint16(b[n:])) != len(payload) {
		panic(fmt.Sprintf("length field of %x", b))
	}
	return MessageType(typ), payload
}

// golden is a message, its encoding, and a version that has it.
type golden struct {
	version Version
	name    string
	message Message
	wire    string
	valid   []int
	ref     Reference // of draft-16
}

func (g *golden) String() string { return fmt.Sprintf("%d %s", g.version, g.name) }

// goldens lists the goldens of all versions.
func goldens() (all []golden) {
	for _, g := range goldens16 {
		all = append(all, golden{Draft16, g.name, g.message, g.wire, g.valid, Reference{70, g.answers}})
	}
	for _, v := range laterVersions() {
		for _, g := range messageGoldens {
			if g.until == 0 || v <= g.until {
				all = append(all, golden{v, g.name, g.message, g.wire, g.valid, Reference{}})
			}
		}
		for _, g := range draftGoldens {
			if g.since <= v && (g.until == 0 || v <= g.until) {
				all = append(all, golden{v, g.name, g.message, g.wire, g.valid, Reference{}})
			}
		}
	}
	return all
}

func TestMessageGoldens(t *testing.T) {
	tested := map[Version]map[string]bool{}
	for _, tc := range goldens() {
		t.Run(tc.String(), func(t *testing.T) {
			want := unhex(tc.wire)
			prefix := []byte{0xaa}
			got, err := AppendMessageTo(prefix, tc.version, tc.ref, tc.message)
			require.NoError(t, err)
			require.Equal(t, want, got[1:])

			typ, payload := split(want)
			m, ref, err := parseMessage(tc.version, typ, payload, false)
			require.NoError(t, err)
			require.Equal(t, tc.message, m)
			f, _ := tc.version.wire().format(typ)
			if tc.version != Draft16 {
				require.Equal(t, tc.message.Type(), typ)
				require.True(t, strings.HasPrefix(tc.name, f.name), typ)
			} else if refers := []byte{0x40, 0x46}; bytes.Contains(payload[:min(3, len(payload))], refers) {
				require.Equal(t, tc.ref.RequestID, ref.RequestID)
			}
			if tested[tc.version] == nil {
				tested[tc.version] = map[string]bool{}
			}
			tested[tc.version][f.name] = true
		})
	}
	for _, v := range Versions() {
		for typ := range v.wire().messages {
			f, sent := v.wire().format(typ)
			if sent && (typ != MessageUnsubscribe || v == Draft16) { // later it is not sent, see TestUnsubscribe
				require.True(t, tested[v][f.name], "no golden of %s in %s", f.name, v)
			}
		}
	}
}

// TestTruncatedMessages cuts every message after each of its bytes, with a length field that agrees. Only messages
// without optional fields may pass.
func TestTruncatedMessages(t *testing.T) {
	for _, tc := range goldens() {
		t.Run(tc.String(), func(t *testing.T) {
			typ, payload := split(unhex(tc.wire))
			var valid []int
			for n := range payload {
				m, err := ParseMessage(tc.version, typ, payload[:n])
				if err == nil {
					valid = append(valid, n)
					again, err := AppendMessageTo(nil, tc.version, tc.ref, m)
					require.NoError(t, err)
					_, again = split(again)
					require.Equal(t, payload[:n], again)
					continue
				}
				var protocol *ProtocolError
				require.ErrorAs(t, err, &protocol)
			}
			require.Equal(t, tc.valid, valid)

			_, err := ParseMessage(tc.version, typ, append(payload, 0xff))
			require.Error(t, err, "a byte more")
		})
	}
}

// TestAnyMessage expects all messages of the newest version to be drawn.
func TestAnyMessage(t *testing.T) {
	drawn := make(map[MessageType]bool)
	for i := range 1000 {
		drawn[anyMessage(newest).Example(i).Type()] = true
	}
	for typ := range newest.wire().messages {
		require.True(t, drawn[typ], typ)
	}
}

// TestParsedMessageOwnsMemory overwrites the payload after parsing.
func TestParsedMessageOwnsMemory(t *testing.T) {
	for _, tc := range goldens() {
		typ, payload := split(unhex(tc.wire))
		m, err := ParseMessage(tc.version, typ, payload)
		require.NoError(t, err)
		for i := range payload {
			payload[i] = 0xff
		}
		require.Equal(t, tc.message, m, tc.String())
	}
}

func TestMessageRoundTrip(t *testing.T) {
	for _, v := range laterVersions() {
		rapid.Check(t, func(t *rapid.T) {
			m := anyMessage(v).Draw(t, "message")
			b, err := AppendMessage(nil, v, m)
			require.NoError(t, err)
			typ, payload := split(b)
			got, err := ParseMessage(v, typ, payload)
			require.NoError(t, err)
			require.Equal(t, m, got)
		})
	}
}

func FuzzParseMessage(f *testing.F) {
	index := func(v Version) uint16 { return uint16(slices.Index(Versions(), v)) }
	for _, tc := range goldens() {
		typ, payload := split(unhex(tc.wire))
		f.Add(index(tc.version), uint64(typ), payload)
	}
	for _, tc := range messageViolations {
		f.Add(index(Draft18), uint64(tc.typ), unhex(tc.payload))
	}
	for _, tc := range draftViolations {
		f.Add(index(tc.since), uint64(tc.typ), unhex(tc.payload))
	}
	f.Fuzz(func(t *testing.T, number uint16, typ uint64, payload []byte) {
		defer testlimit.Start(t, len(payload), 1000)()
		v := Versions()[int(number)%len(Versions())]
		m, ref, err := parseMessage(v, MessageType(typ), payload, false)
		if err != nil || v != Draft16 && MessageType(typ) == MessageUnsubscribe || hasInvalidFilter(m) {
			return
		}
		if n, ok := m.(*SubscribeNamespace); ok && n.WithTracks { // this package does not send it
			return
		}
		b, err := AppendMessageTo(nil, v, ref, m)
		require.NoError(t, err)
		require.LessOrEqual(t, len(b), MaxVarintLen+2+len(payload), "not the shortest encoding")
		typ2, payload := split(b)
		again, ref2, err := parseMessage(v, typ2, payload, false)
		require.NoError(t, err)
		former := v.wire().former
		switch m := m.(type) { // codes that the version does not have are replaced
		case *RequestError:
			m.Code = substitute(former.request, m.Code)
		case *NamespaceRevoked:
			m.Code = substitute(former.request, m.Code)
		case *PublishDone:
			m.Status = substitute(former.received, substitute(former.done, m.Status))
		}
		require.Equal(t, m, again)
		require.Equal(t, ref.RequestID, ref2.RequestID)
	})
}

// TestPublishOK parses the message type that the table of draft §10 still has for PUBLISH_OK.
func TestPublishOK(t *testing.T) {
	m, err := ParseMessage(Draft18, MessagePublishOK, unhex("01 10 00"))
	require.NoError(t, err)
	require.Equal(t, &RequestOK{Parameters: Parameters{Forward: new(false)}}, m)
}

func TestUnsubscribe(t *testing.T) {
	reader := NewReader(bytes.NewReader(unhex("0a 0000 10")), Draft18)
	m, err := reader.Read()
	require.NoError(t, err)
	require.Equal(t, &Unsubscribe{}, m)
	require.Equal(t, 1, reader.Buffered())
	_, err = AppendMessage(nil, Draft18, m)
	require.ErrorContains(t, err, "STOP_SENDING")
}

// TestAppendMessageRefuses checks that AppendMessage refuses messages over which the peer would have to close the
// session, with an error that does not look like a violation by the peer.
func TestAppendMessageRefuses(t *testing.T) {
	long := strings.Repeat("x", MaxFullTrackNameLen)
	for _, tc := range []struct {
		name    string
		message Message
		want    string
	}{
		{"too many namespace fields", &SubscribeNamespace{Prefix: make(Namespace, 33)}, "33 fields"},
		{"empty namespace field", &NamespaceAdded{Suffix: Namespace{"a", ""}}, "empty"},
		{"namespace too long", &NamespaceDone{Suffix: Namespace{long, "x"}}, "4097 bytes"},
		{"full track name too long", &Subscribe{Track: FullTrackName{Namespace{"a"}, long}}, "4097 bytes"},
		{"URI too long", &Goaway{NewSessionURI: strings.Repeat("x", MaxURILen+1)}, "URI"},
		{"payload too long", &Setup{
			Implementation: strings.Repeat("x", MaxValueLen),
		}, "payload of 65539 bytes"},
		{"value too long", &Setup{Implementation: strings.Repeat("x", MaxValueLen+1)}, "65536 bytes"},
		{"parameter of another message", &Subscribe{
			Parameters: Parameters{Expires: new(uint64(1))},
		}, "parameter 0x8"},
		{"group order", &Subscribe{Parameters: Parameters{GroupOrder: new(GroupOrder(3))}}, "group order"},
		{"filter type", &Subscribe{Parameters: Parameters{Filter: &Filter{Type: 6}}}, "filter type"},
		{"alias type", &Subscribe{Parameters: Parameters{
			AuthorizationTokens: []Token{{AliasType: 4}},
		}}, "alias type"},
		{"too many tokens", &Subscribe{Parameters: Parameters{
			AuthorizationTokens: slices.Repeat([]Token{{AliasType: AliasUseValue}}, 17),
		}}, "17 authorization tokens in a message, at most 16"},
		{"too many tokens in SETUP", &Setup{
			AuthorizationTokens: slices.Repeat([]Token{{AliasType: AliasUseValue}}, 17),
		}, "17 authorization tokens in a message, at most 16"},
		{"tokens too long", &Subscribe{Parameters: Parameters{AuthorizationTokens: []Token{
			{AliasType: AliasUseValue, Value: make([]byte, 16<<10)}, {AliasType: AliasUseValue, Value: []byte("x")},
		}}}, "tokens of 16385 bytes"},
		{"fetch type", &Fetch{}, "fetch type"},
		{"redirect without code", &RequestError{Redirect: &Redirect{}}, "REDIRECT"},
		{"code without redirect", &RequestError{Code: RequestRedirect}, "REDIRECT"},
		{"properties cut short", &Publish{Properties: Properties{0x0b, 5}}, "properties"},
		{"property out of range", &Publish{Properties: Properties{0x30, 2}}, "dynamic groups"},
		{"hop twice", &PublishNamespace{Parameters: Parameters{HopPath: HopPath{5, 5}}}, "0x5 is twice"},
		{"too many hops", &NamespaceAdded{
			Parameters: &Parameters{HopPath: make(HopPath, MaxHops+1)},
		}, "33 hops, at most 32"},
		{"message of another version", unknownMessage{}, "does not exist"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, err := AppendMessage([]byte{1}, Draft18, tc.message)
			require.ErrorContains(t, err, tc.want)
			require.Equal(t, []byte{1}, b)
			var protocol *ProtocolError
			require.NotErrorAs(t, err, &protocol)
		})
	}
}

type unknownMessage struct{}

func (unknownMessage) Type() MessageType { return 0x7777 }

// TestLongReason checks that a long reason phrase is truncated between characters, and not refused.
func TestLongReason(t *testing.T) {
	for _, tc := range []struct {
		reason string
		want   int
	}{
		{strings.Repeat("x", MaxReasonLen), MaxReasonLen},
		{strings.Repeat("x", MaxReasonLen+1), MaxReasonLen},
		{strings.Repeat("x", MaxReasonLen-1) + "é", MaxReasonLen - 1},
		{strings.Repeat("x", MaxReasonLen-2) + "é" + "x", MaxReasonLen},
		{strings.Repeat("x", MaxReasonLen-3) + "🦀", MaxReasonLen - 3},
	} {
		b, err := AppendMessage(nil, Draft18, &PublishDone{Reason: tc.reason})
		require.NoError(t, err)
		typ, payload := split(b)
		m, err := ParseMessage(Draft18, typ, payload)
		require.NoError(t, err)
		require.Equal(t, tc.reason[:tc.want], m.(*PublishDone).Reason)
	}
}

func ParseMessage(v Version, typ MessageType, payload []byte) (Message, error) {
	m, _, err := parseMessage(v, typ, payload, false)
	return m, err
}
