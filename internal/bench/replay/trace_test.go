package replay

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/bench/pathprofile"
)

func profile(t testing.TB, name string) pathprofile.Profile {
	p, ok := pathprofile.Find(name)
	require.True(t, ok)
	return p
}

func encode(t testing.TB, tr *Trace) []byte {
	var b bytes.Buffer
	require.NoError(t, tr.Write(&b))
	return b.Bytes()
}

func TestTraceIsReadAsWritten(t *testing.T) {
	t.Parallel()
	for _, p := range pathprofile.All() {
		want := Mock(3*time.Second).On(p, 1)
		require.NoError(t, want.Validate(), p.Name)
		got, err := Read(bytes.NewReader(encode(t, want)))
		require.NoError(t, err, p.Name)
		for i := range want.Objects {
			want.Objects[i].At = Seconds(time.Duration(want.Objects[i].At).Truncate(time.Microsecond))
		}
		require.Equal(t, want, got, p.Name)
	}
}

func TestTraceErrors(t *testing.T) {
	t.Parallel()
	const (
		head   = `{"trace":1,"tracks":[{"name":"v","priority":1}]}`
		path   = `{"path":{"at":0,"rate":1000,"queue":2000,"rtt":0.1}}`
		object = `{"object":{"at":1,"track":0,"group":0,"id":5,"priority":3,"size":10}}`
	)
	_, err := Read(strings.NewReader(head + "\n" + path + "\n" + object))
	require.NoError(t, err)
	longName := `"` + strings.Repeat("v", 300) + `"`
	with := func(old, changed string) string { return strings.Replace(object, old, changed, 1) }
	for want, lines := range map[string][]string{
		"no objects":                  {head, path},
		`line 1: not a trace`:         {object},
		"line 2: must have either":    {head, `{}`},
		"line 2: invalid character":   {head, "x"},
		"how the path is at 0 s":      {head, object},
		"tracks: 0: must be between":  {`{"trace":1}`, path, object},
		"object 1: track: 1":          {head, path, with(`"track":0`, `"track":1`)},
		"size: 0":                     {head, path, with(`"size":10`, `"size":0`)},
		"time: -1 s":                  {head, path, with(`"at":1`, `"at":-1`)},
		"has two objects 5":           {head, path, object, object},
		"earlier than the one before": {head, path, object, with(`"at":1`, `"at":0.5`)},
		"needs object 7":              {head, path, with(`"size"`, `"needs":7,"size"`)},
		"ids must ascend":             {head, path, object, with(`"id":5`, `"id":4`)},
		"the priority be the same":    {head, path, object, with(`"id":5,"priority":3`, `"id":6,"priority":4`)},
		"queue: 1":                    {head, strings.Replace(path, "2000", "1", 1), object},
		"rtt: 11":                     {head, strings.Replace(path, "0.1", "11", 1), object},
		"in the order of time":        {head, path, strings.Replace(path, `"at":0`, `"at":2`, 1), path, object},
		"length of a name: 300":       {strings.Replace(head, `"v"`, longName, 1), path, object},
		"token too long":              {head + strings.Repeat(" ", maxLine)},
	} {
		_, err := Read(strings.NewReader(strings.Join(lines, "\n")))
		require.ErrorContains(t, err, want)
	}
}

func FuzzRead(f *testing.F) {
	p, _ := pathprofile.Find("outage")
	f.Add(encode(f, Mock(time.Second).On(p, 1)))
	f.Fuzz(func(t *testing.T, b []byte) {
		tr, err := Read(bytes.NewReader(b))
		if err != nil {
			return
		}
		again, err := Read(bytes.NewReader(encode(t, tr)))
		require.NoError(t, err)
		require.Equal(t, len(tr.Objects), len(again.Objects))
		require.Equal(t, tr.Path, again.Path)
	})
}
