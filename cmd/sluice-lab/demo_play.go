package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"time"

	"sluice/internal/cli"
	"sluice/lab"
	"sluice/lab/process"
	"sluice/relay"
)

// demo is a run of the demo.
type demo struct {
	stage stage
	clip  string
	want  *source

	fastPath string // of the relays

	relays      []*demoRelay // in the order of the media's way; the publisher is at the first, subscribers at the last
	publisher   *process.Process
	subscribers []*demoSubscriber
	ending      atomic.Bool // the relays are asked to end
}

// demoSubscriber is a process of sluice sub --verify, which compares its media with the source.
type demoSubscriber struct {
	*process.Process
	over string // transport
}

// State of a subscriber.
const (
	playing   = "playing"
	identical = "identical" // it has received everything
	differing = "differs"
	failed    = "failed"
)

func (s *demoSubscriber) state() string {
	select {
	case <-s.Done():
	default:
		return playing
	}
	exit, ended := errors.AsType[*exec.ExitError](s.Err())
	switch {
	case s.Err() == nil:
		return identical
	case ended && exit.ExitCode() == cli.ExitDiffers:
		return differing
	}
	return failed
}

// objects returns how many objects a subscriber has received, which it says at its end.
func (s *demoSubscriber) objects() (n int) {
	if s.state() != playing {
		line, _ := s.Await(context.Background(), "played ", time.Second)
		_, _ = fmt.Sscanf(line, "played %d objects", &n)
	}
	return n
}

func newDemoRun(s stage, clip string, want *source, fastPath string) *demo {
	return &demo{stage: s, clip: clip, want: want, fastPath: fastPath}
}

func (d *demo) last() *demoRelay { return d.relays[len(d.relays)-1] }

// play runs the demo until all processes have ended. show is called while media flows and at the end.
func (d *demo) play(ctx context.Context, relays, subscribers int, show func()) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer func() {
		cancel(nil)
		d.waitAll() // after an error some still run
	}()
	// When a relay has ended too early, nothing tries to reach it any more.
	if err := d.startRelays(ctx, relays, cancel); err != nil {
		return err
	}
	for i := 1; i <= subscribers; i++ {
		if err := d.startSubscriber(ctx, i); err != nil {
			return err
		}
	}
	for _, s := range d.subscribers { // all sessions exist before the media starts
		if _, err := s.Await(ctx, "session started", demoSetUp); err != nil {
			return err
		}
	}
	args := append([]string{"pub", "--wait", d.clip}, d.relays[0].reach(lab.PublisherName, "moqt")...)
	if d.publisher, err = d.stage.command(ctx, lab.PublisherName, args...); err != nil {
		return err
	}
	defer cli.Every(time.Second, func() {
		d.observe()
		show()
	})()
	return d.finish(ctx)
}

func (d *demo) startSubscriber(ctx context.Context, i int) (err error) {
	s := &demoSubscriber{over: "QUIC"}
	scheme := "moqt"
	if i%2 == 0 {
		s.over, scheme = "WebTransport", "https"
	}
	name := lab.SubscriberName(i)
	args := []string{"sub", "--out", os.DevNull, "--verify", d.clip,
		"--wait", demoSetUp.String(), "--hold", demoSetUp.String()}
	args = append(args, d.last().reach(name, scheme)...)
	if s.Process, err = d.stage.command(ctx, name, args...); err != nil {
		return err
	}
	d.subscribers = append(d.subscribers, s)
	return nil
}

// finish waits for the publisher and the subscribers, which end after the clip, and then ends the relay.
func (d *demo) finish(ctx context.Context) error {
	if err := d.publisher.Wait(ctx); err != nil {
		return err
	}
	var errs []error
	for _, s := range d.subscribers {
		err := s.Wait(ctx)
		if s.state() == differing {
			err = fmt.Errorf("%w: %w", errDiffers, err)
		}
		errs = append(errs, err)
	}
	d.observe()
	d.ending.Store(true)
	for _, r := range slices.Backward(d.relays) {
		if err := r.End(); err != nil {
			errs = append(errs, r.Failure(err))
		}
		errs = append(errs, r.Wait(ctx))
	}
	return errors.Join(errs...)
}

// observe asks the relays how much they have sent.
func (d *demo) observe() {
	for _, r := range d.relays {
		r.observe()
	}
}

// waitAll waits for every process that was started.
func (d *demo) waitAll() {
	for _, r := range d.relays {
		<-r.Done()
	}
	if d.publisher != nil {
		<-d.publisher.Done()
	}
	for _, s := range d.subscribers {
		<-s.Done()
	}
}

// startRelays starts the relays. When one of them has ended although it was not asked to, it calls ended.
func (d *demo) startRelays(ctx context.Context, count int, ended func(error)) error {
	for i := 1; i <= count; i++ {
		if err := d.startRelay(ctx, lab.RelayHostName(i)); err != nil {
			return err
		}
		r := d.last()
		go func() {
			<-r.Done()
			if !d.ending.Load() {
				ended(r.Ended())
			}
		}()
	}
	return nil
}

// startRelay starts one more relay in a host.
func (d *demo) startRelay(ctx context.Context, host string) error {
	r := &demoRelay{stage: d.stage, host: host, sessions: make(map[string]relay.SessionStatus)}
	dial := func(ctx context.Context, _, address string) (net.Conn, error) {
		return r.stage.dial(ctx, host, address)
	}
	r.admin = &http.Client{
		Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: 5 * time.Second,
	}
	args := []string{"relay", "--listen", ":0", "--dev", "--admin", "127.0.0.1:0", "--drain", "3s",
		"--fastpath", d.fastPath, "--log-level", "warn"}
	if len(d.relays) > 0 {
		args = append(args, "--upstream", d.last().url(host, "moqt"), "--upstream-tls-disable-verify")
	}
	var err error
	if r.Process, err = d.stage.command(ctx, host, args...); err != nil {
		return err
	}
	d.relays = append(d.relays, r)
	for _, said := range []struct {
		text, pattern string
		value         *string
	}{
		{"raw QUIC", `:(\d+)$`, &r.port},
		{"certificate", `[0-9a-f]{64}`, &r.certificate},
		{"metrics", `http://([^/]+)/`, &r.adminAddress},
	} {
		if *said.value, err = r.says(ctx, said.text, said.pattern); err != nil {
			return err
		}
	}
	return nil
}

// hops returns the ways between relays, and then those to subscribers.
func (d *demo) hops() (all []hop) {
	for i, r := range d.relays[1:] {
		all = append(all, hop{d.relays[i], r.host, nil})
	}
	for _, s := range d.subscribers {
		all = append(all, hop{d.last(), s.Name, s})
	}
	return all
}
