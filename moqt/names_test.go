package moqt

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
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
			got, err := ParseNamespace(tc.track.Namespace.String())
			require.NoError(t, err)
			require.Equal(t, tc.track.Namespace, got)
		})
	}
}

// TestParseNameRefuses has a row for each rule of draft §1.5.1, and for text that is not a name.
func TestParseNameRefuses(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"a.2E", "lower-case"},
		{"a.FF", "lower-case"},
		{".61", "write it as 'a'"},
		{"a-.5f", "write it as '_'"},
		{"a.-b", "two hexadecimal digits"},
		{"a.2", "two hexadecimal digits"},
		{"a.2g", "two lower-case hexadecimal digits"},
		{"-a", "empty"},
		{"a--b", "empty"},
		{"a b", "as .20"},
		{"é", "as .c3"},
		{strings.Repeat("a-", 32) + "a", "33 fields"},
		{strings.Repeat("b", 4097), "4097 bytes"},
	} {
		_, err := ParseNamespace(tc.text)
		require.ErrorContains(t, err, tc.want, tc.text)
	}
}

func FuzzParseNamespace(f *testing.F) {
	f.Add("example.2enet-team2-project_x")
	f.Add(".00")
	f.Fuzz(func(t *testing.T, text string) {
		defer testlimit.Start(t, len(text), 1000)()
		if ns, err := ParseNamespace(text); err == nil {
			require.NoError(t, ns.Validate())
			require.Equal(t, text, ns.String(), "the text form is not canonical")
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
