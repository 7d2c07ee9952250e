package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"sluice/clock"
	"sluice/congestion"
	"sluice/media"
	"sluice/moqt"
	"sluice/server"
)

const (
	sluice = "../../bin/sluice" // make build
	clip   = "../../testdata/clip.mp4"
)

// TestRelay publishes the sample clip through the relay, plays it, and compares the bytes.
func TestRelay(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	relayContext, stop := context.WithCancel(ctx)
	addr, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- run(relayContext, "127.0.0.1:0", func(s *server.Server) { addr <- s.Addr().String() })
	}()
	var url string
	select {
	case a := <-addr:
		url = "moqt://" + a
	case err := <-ended:
		t.Fatal(err)
	}

	out := filepath.Join(t.TempDir(), "out.mp4")
	reach := []string{"--relay", url, "--tls-disable-verify", "--namespace", "live/demo"}
	player := start(t, ctx, append([]string{"sub", "--wait", "30s", "--out", out}, reach...))
	publisher := start(t, ctx, append([]string{"pub", "--wait", "--no-pace", clip}, reach...))
	for _, p := range []*exec.Cmd{publisher, player} {
		if err := p.Wait(); err != nil {
			t.Fatalf("%v: %v\n%s", p.Args, err, p.Stderr)
		}
	}
	want, err := os.ReadFile(clip)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, want) {
		t.Errorf("received %d bytes of %d, or others: %v", len(got), len(want), err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func start(t *testing.T, ctx context.Context, args []string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, sluice, args...)
	cmd.Stderr = new(bytes.Buffer)
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: run 'make build' first", err)
	}
	return cmd
}

func TestPolicies(t *testing.T) {
	c := &capped{Controller: congestion.NewCubic(1200)}
	if rate := c.Rate(10 * time.Millisecond); rate <= 0 || rate > maxRate {
		t.Errorf("rate %d", rate)
	}
	c.srtt = 0
	if w := c.Window(); w <= 0 || w > 64<<10 {
		t.Errorf("window %d", w)
	}

	levels := []media.Backlog{{Level: 3}, {Level: 9, Age: time.Second}}
	if l := (urgentOnly{}).Decide(clock.Time(0), media.Load{Levels: levels}).Threshold; l != 3 {
		t.Errorf("threshold %d, want the most urgent level", l)
	}
	if l := (urgentOnly{}).Decide(clock.Time(0), media.Load{Levels: levels[:1]}).Threshold; l != media.LowestPriority {
		t.Errorf("threshold %d, want all levels", l)
	}

	for namespace, want := range map[string]int{"live": 8, "archive": 0} {
		track := moqt.FullTrackName{Namespace: moqt.Namespace{namespace, "a"}, Name: "video"}
		if n := (liveOnly{}).Subscribers(track, 20); n != want {
			t.Errorf("%s: %d subscribers, want %d", namespace, n, want)
		}
	}
}
