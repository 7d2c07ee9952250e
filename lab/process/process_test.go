package process

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLineLog(t *testing.T) {
	l := newLineLog()
	line, changed := l.find("two")
	require.Empty(t, line)
	io.WriteString(l, "one\ntw")
	<-changed
	_, changed = l.find("two")
	io.WriteString(l, "o\nthree\n")
	<-changed
	line, _ = l.find("two")
	require.Equal(t, "two", line)
	require.Equal(t, "  one\n  two\n  three", l.tail())
	for range 2 * keptLines {
		io.WriteString(l, "more\n")
	}
	line, _ = l.find("two")
	require.Empty(t, line)
	require.Len(t, l.lines, keptLines)
}

func TestProcess(t *testing.T) {
	ctx := t.Context()
	start := func(name, script, says string) *Process {
		p, err := Start(name, exec.Command("sh", "-c", script), (*exec.Cmd).Start)
		require.NoError(t, err)
		line, err := p.Await(ctx, says, time.Minute)
		require.NoError(t, err)
		require.Equal(t, says, line)
		return p
	}
	p := start("relay", "echo ready >&2; read x; echo no luck; exit 3", "ready")
	require.EqualError(t, p.Wait(ctx), "relay: exit status 3\n  ready\n  no luck")
	require.Equal(t, p.Err(), p.Ended())
	p = start("relay", "echo done", "done")
	require.NoError(t, p.Wait(ctx))
	require.EqualError(t, p.Ended(), "relay: has ended\n  done")
	_, err := p.Await(ctx, "never", time.Minute)
	require.EqualError(t, err, "relay: ended before it printed \"never\"\n  done")
	_, err = Start("relay", exec.Command("sh"), func(*exec.Cmd) error { return errors.New("no such host") })
	require.EqualError(t, err, "start relay: no such host")
	ended, end := context.WithCancel(ctx)
	end()
	for _, c := range []struct {
		trap, signal string
		grace        time.Duration
	}{{"", "terminated", time.Minute}, {"trap '' TERM; ", "killed", 0}} {
		p = start("sub1", c.trap+"echo ready; while :; do sleep 0.01; done", "ready")
		require.NoError(t, p.Ended())
		require.ErrorIs(t, p.Wait(ended), context.Canceled)
		p.Stop(c.grace)
		require.ErrorContains(t, p.Err(), "signal: "+c.signal)
	}
	p = Elsewhere("pub", func(log io.Writer) error { return json.NewEncoder(log).Encode("no route") })
	<-p.Done()
	require.NoError(t, p.Err())
	require.EqualError(t, p.Ended(), "pub: has ended\n  \"no route\"")
}
