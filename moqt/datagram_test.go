package moqt

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
)

var datagramGoldens = []struct {
	name     string
	version  Version
	datagram ObjectDatagram
	wire     string
}{
	{"all fields", Draft18, ObjectDatagram{
		TrackAlias: 300, Location: Location{7, 9}, Priority: 200, Properties: Properties{4, 5}, Payload: []byte("abc"),
	}, "01 812c 07 09 c8 02 0405 616263"},
	{"no optional field", Draft18, ObjectDatagram{
		TrackAlias: 1, Location: Location{2, 0}, DefaultPriority: true, Payload: []byte("x"),
	}, "0c 01 02 78"},
	{"end of group", Draft18, ObjectDatagram{
		TrackAlias: 1, Location: Location{2, 3}, EndOfGroup: true, Payload: []byte("x"),
	}, "02 01 02 03 00 78"},
	{"empty object", Draft18, ObjectDatagram{
		TrackAlias: 1, Location: Location{2, 3}, DefaultPriority: true,
	}, "28 01 02 03 00"},
	{"empty object with properties", Draft18, ObjectDatagram{
		TrackAlias: 1, Location: Location{2, 3}, DefaultPriority: true, Properties: Properties{4, 5},
	}, "29 01 02 03 02 0405 00"},
	{"empty object at the end of its group", Draft18, ObjectDatagram{
		TrackAlias: 1, Location: Location{2, 3}, DefaultPriority: true, EndOfGroup: true,
	}, "0a 01 02 03"},
	{"status", Draft18, ObjectDatagram{
		TrackAlias: 1, Location: Location{2, 0}, Priority: 5, Status: StatusEndOfTrack,
	}, "24 01 02 05 04"},
	{"draft-16", Draft16, ObjectDatagram{
		TrackAlias: 300, Location: Location{70, 9}, Priority: 200,
		Properties: Properties{4, 100}, Payload: []byte("abc"),
	}, "01 412c 4046 09 c8 03 044064 616263"},
}

func TestDatagram(t *testing.T) {
	for _, tc := range datagramGoldens {
		t.Run(tc.name, func(t *testing.T) {
			b, err := AppendDatagramHeader([]byte{0xaa}, tc.version, &tc.datagram)
			require.NoError(t, err)
			require.Equal(t, unhex(tc.wire), append(b, tc.datagram.Payload...)[1:])

			o, err := ParseObjectDatagram(tc.version, unhex(tc.wire))
			require.NoError(t, err)
			if len(o.Payload) == 0 {
				o.Payload = nil
			}
			require.Equal(t, tc.datagram, o)

			kind, err := ParseDatagramKind(tc.version, unhex(tc.wire))
			require.NoError(t, err)
			require.Equal(t, DatagramObject, kind)
		})
	}
}

// TestDatagramTypes tries all types of one byte and some longer ones (draft §11.3.1).
func TestDatagramTypes(t *testing.T) {
	for typ := range uint64(0x200) {
		valid := typ <= 0x0f
		for _, base := range []uint64{0x20, 0x24, 0x28, 0x2c} {
			valid = valid || base <= typ && typ <= base+1
		}
		b := AppendVarint(nil, typ)
		_, err := ParseDatagramKind(Draft18, b)
		_, parseErr := ParseObjectDatagram(Draft18, append(b, unhex("01 02 03 04 02 0405 00")...))
		if valid {
			require.NoError(t, err, "%#x", typ)
			continue
		}
		requireCode(t, SessionProtocolViolation, err)
		requireCode(t, SessionProtocolViolation, parseErr)
	}
}

// datagramViolations has a row for each condition of draft §11.2.1 and §11.3.1 that closes the session.
var datagramViolations = []struct{ section, name, wire string }{
	{"11.3.1", "properties of length 0", "0d 01 02 00 78"},
	{"11.3.1", "status and end of group", "22 01 02 03 00 03"},
	{"11.3.1", "end of group with properties", "25 01 02 00 02 0405 03"},
	{"11.3.1", "end of track with properties", "25 01 02 00 02 0405 04"},
	{"11.3.1", "payload after a status", "2c 01 02 03 78"},
	{"11.2.1.1", "unknown status", "2c 01 02 01"},
	{"1.4.3", "property longer than 2^16-1", "0d 01 02 04 01 c10000"},
	{"11", "unknown type", "40 01 02 03"},
	{"11", "empty", ""},
	{"11", "incomplete type", "80"},
}

func TestDatagramViolations(t *testing.T) {
	for _, tc := range datagramViolations {
		t.Run(tc.section+" "+tc.name, func(t *testing.T) {
			_, err := ParseObjectDatagram(Draft18, unhex(tc.wire))
			requireCode(t, SessionProtocolViolation, err)
		})
	}
	for _, wire := range []string{"", "80", "40", "10", "22"} {
		_, err := ParseDatagramKind(Draft18, unhex(wire))
		requireCode(t, SessionProtocolViolation, err)
	}
	for v, wire := range map[Version]string{Draft18: "0d 01 02 02 3e01 78", Draft16: "0d 01 02 02 0440 78"} {
		o, err := ParseObjectDatagram(v, unhex(wire))
		requireMalformed(t, err)
		require.EqualValues(t, 1, o.TrackAlias)
		require.Equal(t, Location{2, 0}, o.Location)
	}
}

func TestAppendDatagramHeaderRefuses(t *testing.T) {
	for want, o := range map[string]ObjectDatagram{
		"end of its group": {Status: StatusEndOfGroup, EndOfGroup: true},
		"payload":          {Status: StatusEndOfGroup, Payload: []byte("x")},
		"properties":       {Status: StatusEndOfGroup, Properties: Properties{4, 5}},
		"unknown":          {Status: 1},
	} {
		b, err := AppendDatagramHeader([]byte{1}, Draft18, &o)
		require.ErrorContains(t, err, want)
		require.Equal(t, []byte{1}, b)
	}
}

func TestPadding(t *testing.T) {
	require.Equal(t, unhex("f0132b3e28"), AppendPaddingStreamType(nil, Draft18))
	require.Equal(t, unhex("aa f0132b3e29 000000"), AppendPaddingDatagram([]byte{0xaa}, Draft18, 8))
	require.Equal(t, unhex("f0132b3e29"), AppendPaddingDatagram(nil, Draft18, 0))
	kind, err := ParseDatagramKind(Draft18, AppendPaddingDatagram(nil, Draft18, 100))
	require.NoError(t, err)
	require.Equal(t, DatagramPadding, kind)
}

func TestParseStreamKind(t *testing.T) {
	for wire, want := range map[string]StreamKind{
		"05": StreamFetch, "10": StreamSubgroup, "7d ff": StreamSubgroup, "af00": StreamControl,
		"f0132b3e28": StreamPadding, "8005": StreamFetch,
	} {
		kind, err := ParseStreamKind(Draft18, unhex(wire))
		require.NoError(t, err)
		require.Equal(t, want, kind, wire)
	}
	for _, wire := range []string{"", "80", "af", "f0132b3e"} {
		_, err := ParseStreamKind(Draft18, unhex(wire))
		require.ErrorIs(t, err, ErrIncomplete)
	}
	// Unknown types, SETUP of older drafts, the padding datagram, the reserved Subgroup ID mode (draft §3.4, §11.4.2).
	for _, wire := range strings.Fields("00 04 06 0f 20 21 8090 f0132b3e29 16 1f 77") {
		_, err := ParseStreamKind(Draft18, unhex(wire))
		requireCode(t, SessionProtocolViolation, err)
	}
}

func FuzzDatagram(f *testing.F) {
	for _, tc := range datagramGoldens {
		f.Add(unhex(tc.wire))
	}
	for _, tc := range datagramViolations {
		f.Add(unhex(tc.wire))
	}
	f.Add(AppendPaddingDatagram(nil, Draft18, 10))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testlimit.Start(t, len(b), 1000)()
		for _, v := range []Version{Draft16, Draft18} {
			kind, kindErr := ParseDatagramKind(v, b)
			o, err := ParseObjectDatagram(v, b)
			require.False(t, err == nil && (kindErr != nil || kind != DatagramObject))
			if err != nil {
				continue
			}
			again, err := AppendDatagramHeader(nil, v, &o)
			require.NoError(t, err)
			got, err := ParseObjectDatagram(v, append(again, o.Payload...))
			require.NoError(t, err)
			got.Payload, o.Payload = append([]byte{}, got.Payload...), append([]byte{}, o.Payload...)
			require.Equal(t, o, got)
		}
	})
}
