package interop

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/player/cmaf"
)

var schemes = []string{"moqt", "https"}

// drafts are those that moq-dev's programs and Sluice speak.
var drafts = []string{"16", "18", "19", "20", "21", "22"}

// TestClientSuite runs all tests of moq-test-client.
func TestClientSuite(t *testing.T) {
	tool := client(t, "moq-test-client")
	list, err := exec.Command(tool, "--list").Output()
	require.NoError(t, err)
	for _, scheme := range schemes {
		t.Run(scheme, func(t *testing.T) {
			p := start(t, nil, nil, tool, "--relay", startRelay(t).url(scheme), "--tls-disable-verify")
			p.wait(t, 3*time.Minute)
			for _, name := range strings.Fields(string(list)) {
				require.Regexp(t, `(?m)^ok \d+ - `+name+`$`, p.output.String())
			}
		})
	}
}

// TestClock has moq-clock-ietf subscribe to itself, by streams and by datagrams.
func TestClock(t *testing.T) {
	tool := client(t, "moq-clock-ietf")
	for _, scheme := range schemes {
		for _, mode := range [][]string{nil, {"--datagrams"}} {
			t.Run(scheme+strings.Join(mode, ""), func(t *testing.T) {
				r := startRelay(t)
				args := []string{"--tls-disable-verify", "--namespace", "clock", r.url(scheme)}
				start(t, nil, nil, tool, append([]string{"--publish"}, append(mode, args...)...)...)
				sub := start(t, nil, nil, tool, args...)
				require.Eventually(t, func() bool {
					return strings.Count(sub.output.String(), ":") >= 6 // two times of day
				}, 20*time.Second, 50*time.Millisecond, "no time arrives")
			})
		}
	}
}

// liveClip writes the clip as a live source would: the init segment at once, and the media at its own speed once
// somebody plays it. It closes ended after the last chunk.
func liveClip(t *testing.T, playing func() bool) (clip io.Reader, ended chan struct{}) {
	t.Helper()
	f, err := os.Open(clipFile)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	ended = make(chan struct{})
	source := cmaf.NewReader(f)
	init, err := source.Init()
	require.NoError(t, err)
	r, w := io.Pipe()
	t.Cleanup(func() { r.Close() })
	go func() {
		defer close(ended)
		_, _ = w.Write(init.Data)
		for deadline := time.Now().Add(20 * time.Second); !playing() && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second) // from the init segment to its subscriptions, a player that we cannot ask
		for begin := time.Now(); ; {
			chunk, err := source.Next()
			if err != nil {
				w.CloseWithError(err) // io.EOF ends it well
				return
			}
			time.Sleep(time.Until(begin.Add(init.Track(chunk.Track).Time(chunk.DecodeTime))))
			if _, err := w.Write(chunk.Data); err != nil {
				return
			}
		}
	}()
	return r, ended
}

// TestMatrix publishes the clip with each publisher and plays it with each player.
func TestMatrix(t *testing.T) {
	client(t, "moq-pub")
	want := frames(t, clipFile)
	for _, scheme := range schemes {
		for _, pub := range []string{"sluice", "moq-pub", "moq"} {
			for _, sub := range []string{"sluice", "moq-sub", "moq"} {
				if pub != sub && pub != "sluice" && sub != "sluice" {
					continue // they have other catalogs
				}
				t.Run(fmt.Sprintf("%s %s to %s", scheme, pub, sub), func(t *testing.T) {
					transfer(t, want, scheme, pub, sub)
				})
			}
		}
	}
}

// clipInto is liveClip for a player that writes to a file.
func clipInto(t *testing.T) (out *os.File, clip io.Reader, ended chan struct{}) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out.mp4"))
	require.NoError(t, err)
	t.Cleanup(func() { out.Close() })
	clip, ended = liveClip(t, func() bool {
		info, err := out.Stat()
		return err == nil && info.Size() > 0
	})
	return out, clip, ended
}

// awaitEnd waits until the player has ended. Only our publisher ends with its input.
func awaitEnd(t *testing.T, pub string, publisher, player *process) {
	t.Helper()
	if pub == "sluice" {
		player.wait(t, 30*time.Second)
	} else {
		endBoth(t, publisher, player)
	}
}

// transfer publishes the clip with one program and plays it with another one. The file that arrives must decode to all
// its frames.
func transfer(t *testing.T, want counts, scheme, pub, sub string) *relay {
	t.Helper()
	r := startRelay(t, "--idle-timeout", "3s")
	out, source, ended := clipInto(t)
	publisher := publish(t, (*exec.Cmd).Start, pub, r.url(scheme), source)
	player := play(t, (*exec.Cmd).Start, sub, r.url(scheme), out)
	<-ended
	awaitEnd(t, pub, publisher, player)
	require.Equal(t, want, frames(t, out.Name()))
	return r
}

// TestMoqDrafts has moq publish and play by each draft, which follows its name here.
func TestMoqDrafts(t *testing.T) {
	client(t, "moq")
	want := frames(t, clipFile)
	for _, draft := range drafts {
		for _, pair := range [][2]string{{"moq " + draft, "sluice"}, {"sluice", "moq " + draft}} {
			t.Run(pair[0]+" to "+pair[1], func(t *testing.T) {
				t.Parallel()
				r := transfer(t, want, "moqt", pair[0], pair[1])
				require.Contains(t, r.output.String(), "transport=quic version=draft-ietf-moq-transport-"+draft)
			})
		}
	}
}

// endBoth ends a publisher that stays when its input has ended, and waits until the player has ended, with any exit
// code.
func endBoth(t *testing.T, publisher, player *process) {
	t.Helper()
	time.Sleep(time.Second) // it sends the last object, and reports nothing
	publisher.stop()
	select {
	case <-player.done:
	case <-time.After(40 * time.Second):
		t.Fatal("the player does not notice that the publisher has gone")
	}
}

func publish(t *testing.T, on starter, name, url string, in io.Reader) *process {
	t.Helper()
	if name == "sluice" {
		return startBy(t, on, in, nil, "sluice", "pub", "--relay", url, "--tls-disable-verify", "--namespace",
			namespace, "-")
	}
	if name, draft, _ := strings.Cut(name, " "); name == "moq" {
		return startBy(t, on, in, nil, client(t, name), moqArguments(url, draft, "import", "fmp4")...)
	}
	return startBy(t, on, in, nil, client(t, name), "--tls-disable-verify", "--name", namespace, url)
}

// moqArguments are the arguments of moq-dev's moq, of crate moq-cli, with a draft, or "" for the newest one.
func moqArguments(url, draft string, stage ...string) []string {
	arguments := []string{"--connect", url + "/", "--connect-tls-insecure", "--broadcast", namespace}
	if draft != "" {
		arguments = append(arguments, "--connect-version", "moq-transport-"+draft)
	}
	return append(arguments, stage...)
}

func play(t *testing.T, on starter, name, url string, out *os.File) *process {
	t.Helper()
	if name == "sluice" {
		return startBy(t, on, nil, nil, "sluice", "sub", "--relay", url, "--tls-disable-verify", "--namespace",
			namespace,
			"--wait", "3s", "--out", out.Name())
	}
	if name, draft, _ := strings.Cut(name, " "); name == "moq" {
		return startBy(t, on, nil, out, client(t, name), moqArguments(url, draft, "export", "fmp4")...)
	}
	time.Sleep(time.Second) // it does not wait for a publisher
	return startBy(t, on, nil, out, client(t, name), "--tls-disable-verify", "--name", namespace, url)
}

// counts are the decoded frames of a file, by track.
type counts struct{ video, audio string }

// frames decodes a file and counts.
func frames(t *testing.T, file string) counts {
	t.Helper()
	of := func(stream string) string {
		out, err := exec.Command("ffprobe", "-v", "error", "-count_frames", "-select_streams", stream,
			"-show_entries", "stream=nb_read_frames", "-of", "csv=p=0", file).CombinedOutput()
		require.NoError(t, err, string(out))
		return strings.TrimSpace(string(out))
	}
	return counts{of("v:0"), of("a:0")}
}
