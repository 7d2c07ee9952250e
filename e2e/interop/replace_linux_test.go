package interop

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/player/cmaf"
	"sluice/server"
)

// TestReplacement replaces the relay while public clients, which do not follow GOAWAY, publish and play the clip. They
// go on at the old process until they have all of it, and then that process ends. New clients get to the new one.
func TestReplacement(t *testing.T) {
	client(t, "moq-pub")
	want := chunks(t, clipFile)
	for _, scheme := range schemes {
		t.Run(scheme, func(t *testing.T) {
			control := filepath.Join(t.TempDir(), "control")
			r := startRelay(t, "--control", control, "--idle-timeout", "3s")
			out, err := os.Create(filepath.Join(t.TempDir(), "out.mp4"))
			require.NoError(t, err)
			defer out.Close()
			size := func() int64 {
				info, err := out.Stat()
				require.NoError(t, err)
				return info.Size()
			}
			source, ended := liveClip(t, func() bool { return size() > 0 })
			publisher := publish(t, (*exec.Cmd).Start, "moq-pub", r.url(scheme), source)
			player := play(t, (*exec.Cmd).Start, "moq-sub", r.url(scheme), out)
			require.Eventually(t, func() bool { return size() > 100_000 }, time.Minute, 10*time.Millisecond)

			old := r.process
			r.run(t, "--control", control, "--idle-timeout", "3s", "--replace")
			r.awaitDraining(t, server.DrainingProcess{PID: old.Process.Pid, Sessions: 2})
			select {
			case <-ended:
			case <-publisher.done:
				t.Fatalf("the publisher has not kept its session:\n%s", publisher.output.String())
			}
			endBoth(t, publisher, player)
			old.wait(t, 30*time.Second)
			require.Contains(t, old.output.String(), "another process has taken over; draining")
			require.Equal(t, want, chunks(t, out.Name()))
			r.awaitDraining(t)
		})
	}
}

// awaitDraining waits until the relay has no session, and says that these processes have.
func (r *relay) awaitDraining(t *testing.T, want ...server.DrainingProcess) {
	t.Helper()
	client := http.Client{Timeout: 5 * time.Second}
	require.Eventually(t, func() bool {
		answer, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/status", r.admin))
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		var st server.Status
		return json.NewDecoder(answer.Body).Decode(&st) == nil &&
			len(st.Sessions) == 0 && len(st.Draining) == len(want) && (len(want) == 0 || st.Draining[0] == want[0])
	}, 20*time.Second, 20*time.Millisecond)
}

// chunks returns the media of a file, by track.
func chunks(t *testing.T, file string) map[uint32][]byte {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	all := make(map[uint32][]byte)
	for r := cmaf.NewReader(f); ; {
		c, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all[c.Track] = append(all[c.Track], c.Data...)
	}
}
