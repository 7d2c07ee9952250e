package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStatusLine(t *testing.T) {
	var out bytes.Buffer
	s := &statusLine{w: &out, terminal: true}
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() { s.clear() }, ""},
		{func() { _, _ = s.Write([]byte("a log line\n")) }, "a log line\n"},
		{func() { s.show("%d objects", 7) }, "\r\x1b[K7 objects"},
		{func() { _, _ = s.Write([]byte("another\n")) }, "\r\x1b[Kanother\n7 objects"},
		{func() { s.clear() }, "\r\x1b[K"},
		{func() { _, _ = s.Write([]byte("the last\n")) }, "the last\n"},
	} {
		out.Reset()
		step.do()
		require.Equal(t, step.want, out.String())
	}
	file := newStatusLine(&out)
	out.Reset()
	file.show("not shown in files")
	require.Empty(t, out.String())
}

func TestTexts(t *testing.T) {
	for want, n := range map[string]uint64{
		"0 B": 0, "999 B": 999, "1.0 kB": 1000, "548.3 kB": 548295, "1.5 MB": 1_500_000, "2.0 GB": 2e9, "3.0 TB": 3e12, "5000.0 TB": 5e15,
	} {
		require.Equal(t, want, bytesText(n))
	}
	require.Equal(t, "10.02 s", secondsText(10016*time.Millisecond))
}
