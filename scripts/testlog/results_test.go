package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const log = `{"Action":"start","Package":"a"}
{"Action":"output","Package":"a","Test":"TestGood","Output":"good says\n"}
{"Action":"pass","Package":"a","Test":"TestGood","Elapsed":1}
{"Action":"output","Package":"a","Test":"TestBad","Output":"bad says\n"}
{"Action":"fail","Package":"a","Test":"TestBad","Elapsed":0.5}
{"Action":"fail","Package":"a","Test":"TestBad","Elapsed":0.5}
{"Action":"skip","Package":"a","Test":"TestAway","Elapsed":0}
{"Action":"fail","Package":"a","Elapsed":1.5}
{"Action":"pass","Package":"b","Elapsed":3}
{"ImportPath":"c","Action":"build-output","Output":"c does not compile\n"}
{"Action":"fail","Package":"c","Elapsed":0}
{"Action":"output","Package":"d","Test":"TestRunning","Output":"panic\n"}
{"Action":"output","Package":"d","Output":"FAIL d\n"}
{"Action":"fail","Package":"d","Elapsed":0}
go: a word of go itself
`

func TestFollowAndSummary(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tests.json")
	var said, summary bytes.Buffer
	require.NoError(t, run([]string{"follow", file}, strings.NewReader(log), &said))
	require.Equal(t, "bad says\nfail\ta\t1.5s\npass\tb\t3.0s\nc does not compile\nfail\tc\t0.0s\n"+
		"FAIL d\npanic\nfail\td\t0.0s\ngo: a word of go itself\n", said.String())
	require.EqualError(t, run([]string{"summary", file}, nil, &summary), "4 tests failed")
	require.Equal(t, `the slowest packages:
     3.0 s  b
     1.5 s  a
     0.0 s  c
     0.0 s  d
4 packages, 1 tests were skipped, 4 failed
FAILED: a TestBad, 2 times
FAILED: c
FAILED: d
`, summary.String())
	require.ErrorContains(t, run(nil, nil, nil), "must be follow FILE, or summary and files")
}
