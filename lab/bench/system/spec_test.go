package system

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/lab/bench/result"
)

func TestExpand(t *testing.T) {
	words, err := expand([]string{"relay", "--bind={addr}", "{cert}{key}", "{not a placeholder}", "{addr}"},
		map[string]string{"addr": "[::]:4443", "cert": "c{key}", "key": "k"})
	require.NoError(t, err)
	require.Equal(t, []string{"relay", "--bind=[::]:4443", "c{key}k", "{not a placeholder}", "[::]:4443"}, words)
	_, err = expand([]string{"{adr}"}, Place{}.values())
	require.ErrorContains(t, err,
		"no placeholder {adr}; there are {addr}, {cert}, {cores}, {dir}, {host}, {key}, {port}, {sluice}")
}

func TestSpecs(t *testing.T) {
	for _, s := range append(Sluice("1"), Unprotected("1", "build")...) {
		require.NoError(t, s.Validate())
	}
	for want, s := range map[string]Spec{
		"a name and a command":                            {Name: "x"},
		"relay x: its command must have {addr} or {port}": {Name: "x", Command: "relay --listen :4443"},
		"no placeholder {address}":                        {Name: "x", Command: "relay {address}"},
	} {
		require.ErrorContains(t, s.Validate(), want)
	}
	require.True(t, Spec{}.TakesPart([]string{result.KindCPU}))
	require.False(t, Spec{}.TakesPart([]string{result.KindRTSP}))
	require.True(t, Spec{RTSP: "--rtsp"}.TakesPart([]string{result.KindRTSP}))
	require.False(t, Spec{RTSP: "{rtsp}", Kinds: []string{result.KindRTSP}}.TakesPart([]string{result.KindCPU}))
	require.True(t, Spec{Kinds: []string{result.KindCongestion}}.TakesPart([]string{result.KindDelay,
		result.KindCongestion}))
	require.False(t, Spec{Kinds: []string{result.KindCongestion}}.TakesPart([]string{result.KindDelay}))
}

func TestWords(t *testing.T) {
	place := Place{Cert: "c.pem", Key: "k.pem", Dir: "/run", Sluice: "bin/sluice"}
	words, err := Sluice("1")[0].Words(place)
	require.NoError(t, err)
	require.Equal(t, []string{
		"bin/sluice", "relay", "--listen", "[::]:4443", "--tls-cert", "c.pem", "--tls-key", "k.pem", "--drain", "1s",
		"--log-level", "warn", "--admin", "127.0.0.1:4480", "--admin-pprof",
		"--quota-per-address", "sessions=16384", "--fastpath", "on",
	}, words)

	place.Upstream = "moqt://[::1]:4443"
	words, err = Sluice("1")[0].Words(place)
	require.NoError(t, err)
	require.Equal(t, []string{"--fastpath", "on", "--upstream", "moqt://[::1]:4443", "--upstream-tls-disable-verify"},
		words[len(words)-5:])
}

// TestFurther gives the words and files for an upstream relay to all relays of a chain but the first.
func TestFurther(t *testing.T) {
	s := Spec{
		Name: "x", Command: "relay {addr}", Further: "--ask {dir}/table",
		Files: map[string]string{"table": "{upstream} {x y}"},
	}
	require.NoError(t, s.Validate())
	first := Place{Dir: t.TempDir()}
	words, err := s.Words(first)
	require.NoError(t, err)
	require.Equal(t, []string{"relay", "[::]:4443"}, words)
	require.NoError(t, s.WriteFiles(first))
	require.NoFileExists(t, filepath.Join(first.Dir, "table"))

	next := Place{Dir: t.TempDir(), Upstream: "moqt://a"}
	words, err = s.Words(next)
	require.NoError(t, err)
	require.Equal(t, []string{"relay", "[::]:4443", "--ask", filepath.Join(next.Dir, "table")}, words)
	require.NoError(t, s.WriteFiles(next))
	text, err := os.ReadFile(filepath.Join(next.Dir, "table"))
	require.NoError(t, err)
	require.Equal(t, "moqt://a {x y}", string(text))

	s.Further = "--ask {origin}"
	require.ErrorContains(t, s.Validate(), "no placeholder {origin}")
	s.Further, s.Command = "", "relay {addr} {upstream}"
	require.ErrorContains(t, s.Validate(), "no placeholder {upstream}", "the first of a chain has none")
}

// TestRTSP gives relays whose clients use RTSP the words and the files for that, and others nothing of it.
func TestRTSP(t *testing.T) {
	place := Place{Dir: t.TempDir(), RTSP: true}
	words, err := Sluice("1")[1].Words(place)
	require.NoError(t, err)
	require.Equal(t, []string{"--fastpath", "off", "--rtsp", "[::]:8554", "--rtsp-rtp", "[::]:8000"},
		words[len(words)-6:])

	other := peers[len(peers)-1]
	require.NoError(t, other.Validate())
	words, err = other.Words(place)
	require.NoError(t, err)
	file := filepath.Join(place.Dir, "mediamtx.yml")
	require.Equal(t, []string{"mediamtx", file}, words)
	require.NoError(t, other.WriteFiles(place))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), "rtspAddress: '[::]:8554'\nrtpAddress: '[::]:8000'\nrtcpAddress: '[::]:8001'\n")
}

// TestUnprotected keeps the variants without packet protection apart from the others: name, programs, scenarios.
func TestUnprotected(t *testing.T) {
	for i, s := range Unprotected("1", "build") {
		like := Sluice("1")[i]
		require.Equal(t, like.Name+"-unprotected", s.Name)
		require.Equal(t, like.Command, s.Command)
		require.Equal(t, "build", s.Build)
		require.True(t, s.TakesPart([]string{result.KindCapacity}))
		require.False(t, s.TakesPart([]string{result.KindSyscalls}))
	}
}

// TestClients takes the words of clients that are installed, and says how to install others.
func TestClients(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", "")
	_, err := StockClients(dir)
	require.ErrorContains(t, err, "make bench-peers")
	for _, name := range []string{"moq-pub", "moq-sub"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o755))
	}
	stock, err := StockClients(dir)
	require.NoError(t, err)
	words, err := stock.Words(stock.Player, "moqt://relay", "bench/media", "sluice")
	require.NoError(t, err)
	require.Equal(t, []string{
		filepath.Join(dir, "moq-sub"), "--tls-disable-verify", "--name", "bench/media", "moqt://relay"}, words)
	words, err = OwnClients.Words(OwnClients.Publisher, "moqt://relay", "bench/media", "/bin/sluice")
	require.NoError(t, err)
	require.Equal(t, "/bin/sluice pub --relay moqt://relay", strings.Join(words[:4], " "))
}
