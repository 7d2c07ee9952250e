package loc

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/player/catalog"
)

func TestProperties(t *testing.T) {
	key := Frame{Timestamp: 96000, Timescale: 48000, Config: []byte{1, 2, 3}, Video: true, Key: true}
	disposable := Frame{Timestamp: 1, Timescale: 25, Video: true, Disposable: true}
	sound := Frame{Timestamp: 1, Timescale: 25, Config: []byte{0x11, 0x90}}
	for name, tt := range map[string]struct {
		frame   Frame
		version moqt.Version
		want    string
	}{
		"key frame, MOQT 18":         {key, 18, "06c17700" + "02c0bb80" + "0280e0" + "0303010203"},
		"key frame, MOQT 22":         {key, 22, "08c0bb80" + "0101e0" + "0403010203" + "03c17700"},
		"disposable frame, MOQT 18":  {disposable, 18, "0601" + "0219" + "0280d0"},
		"disposable frame, MOQT 20":  {disposable, 20, "0819" + "0101d0" + "0701"},
		"sound with its configurati": {sound, 20, "0819" + "07021190" + "0101"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := tt.frame.Properties(tt.version)
			require.NoError(t, err)
			require.Equal(t, tt.want, hex.EncodeToString(p))
			got, err := Parse(catalog.LOC, p, []byte("payload"))
			require.NoError(t, err)
			require.Equal(t, Frame{
				Timestamp: tt.frame.Timestamp, Timed: true, Timescale: tt.frame.Timescale, Config: tt.frame.Config,
				Payload: []byte("payload"),
			}, got)
			immutable, err := moqt.NewProperties(moqt.KeyValuePair{Type: moqt.PropertyImmutable, Bytes: p})
			require.NoError(t, err)
			again, err := Parse(catalog.LOC, immutable, []byte("payload"))
			require.NoError(t, err)
			require.Equal(t, got, again)
		})
	}
}

func TestTrackProperty(t *testing.T) {
	p, err := moqt.NewProperties(TrackProperty(12800))
	require.NoError(t, err)
	require.Equal(t, uint64(12800), Timescale(p))
	require.Zero(t, Timescale(nil))
}

func TestParse(t *testing.T) {
	for name, tt := range map[string]struct {
		packaging, payload string
		want               Frame
		wantErr            string
	}{
		"LOC without properties": {packaging: catalog.LOC, payload: "ab", want: Frame{Payload: []byte{0xab}}},
		"legacy": {
			packaging: catalog.HangLegacy, payload: "80030d40" + "cafe",
			want: Frame{Timestamp: 200_000, Timed: true, Timescale: 1_000_000, Payload: []byte{0xca, 0xfe}},
		},
		"hang's LOC": {
			packaging: catalog.HangLOC, payload: "05" + "10" + "80030d40" + "cafe",
			want: Frame{Timestamp: 200_000, Timed: true, Timescale: 1_000_000, Payload: []byte{0xca, 0xfe}},
		},
		"hang's LOC with a timescale, a configuration and the old number": {
			packaging: catalog.HangLOC, payload: "08" + "0605" + "0219" + "05020102" + "ff",
			want: Frame{Timestamp: 5, Timed: true, Timescale: 25, Config: []byte{1, 2}, Payload: []byte{0xff}},
		},
		"hang's LOC without properties": {
			packaging: catalog.HangLOC, payload: "00ff", want: Frame{Timescale: 1_000_000, Payload: []byte{0xff}},
		},
		"legacy, empty":              {packaging: catalog.HangLegacy, wantErr: "without a time"},
		"hang's LOC, empty":          {packaging: catalog.HangLOC, wantErr: "ends within its properties"},
		"hang's LOC, length":         {packaging: catalog.HangLOC, payload: "0210", wantErr: "within its properties"},
		"hang's LOC, type only":      {packaging: catalog.HangLOC, payload: "0110", wantErr: "property"},
		"hang's LOC, half a type":    {packaging: catalog.HangLOC, payload: "0140", wantErr: "property"},
		"hang's LOC, value too long": {packaging: catalog.HangLOC, payload: "020d05", wantErr: "within its properties"},
		"other":                      {packaging: "cmaf", wantErr: "has no frames"},
	} {
		t.Run(name, func(t *testing.T) {
			payload, err := hex.DecodeString(tt.payload)
			require.NoError(t, err)
			got, err := Parse(tt.packaging, nil, payload)
			if tt.wantErr != "" {
				require.ErrorContains(t, err, tt.wantErr)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}
