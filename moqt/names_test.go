package moqt

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNameText(t *testing.T) {
	for _, tc := range []struct {
		track FullTrackName
		text  string
	}{
		{FullTrackName{Namespace{"example.net", "team2", "project_x"}, "report"},
			"example.2enet-team2-project_x--report"},
		{FullTrackName{Namespace{}, ""}, "--"},
		{FullTrackName{Namespace{}, "x"}, "--x"},
		{FullTrackName{Namespace{"a"}, ""}, "a--"},
		{FullTrackName{Namespace{"-", "--"}, "-"}, ".2d-.2d.2d--.2d"},
		{FullTrackName{Namespace{"\x00\xff"}, "é/"}, ".00.ff--.c3.a9.2f"},
		{FullTrackName{Namespace{"AZaz09_"}, "."}, "AZaz09_--.2e"},
	} {
		t.Run(tc.text, func(t *testing.T) {
			require.Equal(t, tc.text, tc.track.String())
			got, err := ParseFullTrackName(tc.text)
			require.NoError(t, err)
			require.Equal(t, tc.track, got)
		})
	}
}

// TestParseNameRefuses has a row for each rule of draft §1.5.1, and for text that is not a name.
func TestParseNameRefuses(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"a.2E--b", "lower-case"},
		{"a.FF--b", "lower-case"},
		{".61--b", "write it as 'a'"},
		{"a--.5f", "write it as '_'"},
		{"a.--b", "two hexadecimal digits"},
		{"a.2--b", "two hexadecimal digits"},
		{"a--b.", "two hexadecimal digits"},
		{"a--b.2", "two hexadecimal digits"},
		{"a--b.2g", "two lower-case hexadecimal digits"},
		{"a", "field-field--name"},
		{"", "field-field--name"},
		{"a-b", "field-field--name"},
		{"-a--b", "empty"},
		{"a---b", "as .2d"},
		{"a--b-c", "as .2d"},
		{"a b--c", "as .20"},
		{"é--c", "as .c3"},
		{strings.Repeat("a-", 32) + "a--b", "33 fields"},
		{"a--" + strings.Repeat("b", 4096), "4097 bytes"},
	} {
		_, err := ParseFullTrackName(tc.text)
		require.ErrorContains(t, err, tc.want, tc.text)
	}
	_, err := ParseNamespace("a--b")
	require.ErrorContains(t, err, "empty")
}

func FuzzParseFullTrackName(f *testing.F) {
	f.Add("example.2enet-team2-project_x--report")
	f.Add("--.00")
	f.Fuzz(func(t *testing.T, text string) {
		if track, err := ParseFullTrackName(text); err == nil {
			require.NoError(t, track.Validate())
			require.Equal(t, text, track.String(), "the text form is not canonical")
		}
	})
}

func TestNamespace(t *testing.T) {
	ab := Namespace{"a", "b"}
	require.True(t, ab.HasPrefix(Namespace{}))
	require.True(t, ab.HasPrefix(Namespace{"a"}))
	require.True(t, ab.HasPrefix(ab))
	require.False(t, ab.HasPrefix(Namespace{"a", "b", "c"}))
	require.False(t, ab.HasPrefix(Namespace{"ab"}))

	require.True(t, ab.Overlaps(Namespace{"a"}))
	require.True(t, Namespace{"a"}.Overlaps(ab))
	require.True(t, ab.Overlaps(nil))
	require.False(t, ab.Overlaps(Namespace{"a", "c"}))

	joined := ab[:1].Join(Namespace{"c"})
	require.Equal(t, Namespace{"a", "c"}, joined)
	require.Equal(t, Namespace{"a", "b"}, ab, "Join has written into its receiver")

	for _, tc := range []struct {
		ns                           Namespace
		reserved, forbidden, session bool
	}{
		{Namespace{}, false, false, false},
		{Namespace{"a", "."}, false, false, false},
		{Namespace{".x"}, true, false, false},
		{Namespace{"."}, true, true, false},
		{Namespace{".session", "x"}, true, false, true},
		{Namespace{".sessions"}, true, false, false},
	} {
		require.Equal(t, tc.reserved, tc.ns.IsReserved(), tc.ns)
		require.Equal(t, tc.forbidden, tc.ns.IsForbidden(), tc.ns)
		require.Equal(t, tc.session, tc.ns.IsSession(), tc.ns)
	}
}

// TestNameKeys checks that only equal names have equal keys, whatever bytes the names contain.
func TestNameKeys(t *testing.T) {
	tracks := []FullTrackName{
		{Namespace{}, ""},
		{Namespace{}, "\x00"},
		{Namespace{"a"}, "b"},
		{Namespace{"a", "b"}, ""},
		{Namespace{"ab"}, ""},
		{Namespace{"a\x01b"}, ""},
		{Namespace{"a"}, "\x01b"},
	}
	keys := map[string]bool{}
	for i, a := range tracks {
		keys[a.Key()] = true
		for j, b := range tracks {
			require.Equal(t, i == j, a.Equal(b))
			require.Equal(t, a.Namespace.Equal(b.Namespace), a.Namespace.Key() == b.Namespace.Key())
		}
	}
	require.Len(t, keys, len(tracks))
}
