package cli

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStatusLine(t *testing.T) {
	var out bytes.Buffer
	s := &StatusLine{w: &out, terminal: true}
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() { s.Clear() }, ""},
		{func() { _, _ = s.Write([]byte("a log line\n")) }, "a log line\n"},
		{func() { s.Show("%d objects", 7) }, "\r\x1b[K7 objects"},
		{func() { _, _ = s.Write([]byte("another\n")) }, "\r\x1b[Kanother\n7 objects"},
		{func() { s.Clear() }, "\r\x1b[K"},
		{func() { _, _ = s.Write([]byte("the last\n")) }, "the last\n"},
	} {
		out.Reset()
		step.do()
		require.Equal(t, step.want, out.String())
	}
	file := NewStatusLine(&out)
	out.Reset()
	file.Show("not shown in files")
	require.Empty(t, out.String())
}
