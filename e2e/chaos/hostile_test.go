package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"sluice/lab/hostile"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// taskVariable is the environment variable with the task of a hostile process, which is this test's program.
const taskVariable = "SLUICE_TEST_HOSTILE"

// task is what a hostile process does.
type task struct {
	Attack string             `json:"attack"`
	URL    string             `json:"url"`
	Token  string             `json:"token"`
	Victim moqt.FullTrackName `json:"victim"`
	// RTSP says whom to attack by RTSP, instead of at the URL.
	RTSP *hostile.RTSPClient `json:"rtsp,omitempty"`
}

// attackPause is the time between two sessions of an attacker.
const attackPause = 100 * time.Millisecond

// beHostile attacks a relay again and again until SIGTERM. It returns the exit code: 1 if the relay did not defend
// itself.
func beHostile(text string) int {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for ctx.Err() == nil {
		// Other errors are expected: the relay refuses a session, or a quota is used up.
		if err := t.attackOnce(ctx); errors.Is(err, hostile.ErrUndefended) && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		select {
		case <-ctx.Done():
		case <-time.After(attackPause):
		}
	}
	return 0
}

// attackRTSP attacks once by RTSP, until ctx ends.
func (t *task) attackRTSP(ctx context.Context) error {
	i := slices.IndexFunc(hostile.RTSPAttacks, func(a hostile.RTSPAttack) bool { return a.Name == t.Attack })
	if i < 0 {
		return fmt.Errorf("there is no attack %q: %w", t.Attack, hostile.ErrUndefended)
	}
	return hostile.RTSPAttacks[i].Run(ctx, *t.RTSP)
}

// attackOnce attacks once, on a session of its own, which ends with ctx.
func (t *task) attackOnce(ctx context.Context) error {
	if t.RTSP != nil {
		return t.attackRTSP(ctx)
	}
	i := slices.IndexFunc(hostile.Attacks, func(a hostile.Attack) bool { return a.Name == t.Attack })
	if i < 0 {
		return fmt.Errorf("there is no attack %q: %w", t.Attack, hostile.ErrUndefended)
	}
	url, err := transport.ParseURL(t.URL)
	if err != nil {
		return err
	}
	conn, err := transport.Dial(ctx, t.URL, transport.ClientConfig{Protocols: moqt.ALPNs(), Insecure: true})
	if err != nil {
		return err
	}
	p := hostile.NewPeer(t.Victim)
	s, err := session.New(conn, session.Config{
		Handler: p, Authority: url.Authority, Path: cmp.Or(url.Path, "/"), Logger: slog.New(slog.DiscardHandler),
		Tokens: []moqt.Token{{AliasType: moqt.AliasUseValue, Value: []byte(t.Token)}},
	})
	if err != nil {
		return err
	}
	p.Session, p.Conn = s, conn
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { _ = s.Run(ctx) })
	defer s.Close(moqt.SessionNoError, "")
	if _, err := s.Peer(ctx); err != nil {
		return err
	}
	return hostile.Attacks[i].Run(p)
}
