package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"sluice/internal/cli"
	"sluice/internal/lab"
	"sluice/relay"
	"sluice/server"
)

// demo is a run of the demo.
type demo struct {
	stage stage
	clip  string
	want  *source

	fastPath string // of the relay
	limited  bool   // limit the rate of sub1

	relay, publisher *process
	subscribers      []*demoSubscriber
	admin            *http.Client // in the relay's host
	adminAddress     string

	mu       sync.Mutex
	sessions map[string]relay.SessionStatus // as the relay described them last, by path
	kernel   bool                           // the relay has a fast path
}

// demoSubscriber is a subscriber and what it has received.
type demoSubscriber struct {
	*process
	over string // transport
	got  *checker
}

func newDemoRun(s stage, clip string, want *source, fastPath string) *demo {
	dial := func(ctx context.Context, _, address string) (net.Conn, error) {
		return s.dial(ctx, lab.RelayName, address)
	}
	return &demo{
		stage: s, clip: clip, want: want, fastPath: fastPath, sessions: make(map[string]relay.SessionStatus),
		admin: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}},
	}
}

// play runs the demo until all processes have ended. show is called while media flows and at the end.
func (d *demo) play(ctx context.Context, subscribers int, show func()) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer func() {
		cancel(nil)
		d.waitAll() // after an error some still run
	}()
	reach, err := d.startRelay(ctx)
	if err != nil {
		return err
	}
	go func() {
		<-d.relay.done
		// Nothing tries to reach the relay any more.
		cancel(fmt.Errorf("the relay has ended: %w", cmp.Or(d.relay.err, io.EOF)))
	}()
	for i := 1; i <= subscribers; i++ {
		if err := d.startSubscriber(ctx, i, reach); err != nil {
			return err
		}
	}
	for _, s := range d.subscribers { // all sessions exist before the media starts
		if _, err := s.await(ctx, "session started"); err != nil {
			return err
		}
	}
	args := append([]string{"pub", "--wait", d.clip}, reach(lab.PublisherName, "moqt")...)
	if d.limited {
		args = append(args, "--key-priority", "32", "--delta-priority", "160")
	}
	if d.publisher, err = d.stage.command(ctx, lab.PublisherName, nil, args...); err != nil {
		return err
	}
	defer cli.Every(time.Second, func() {
		d.observe(ctx)
		show()
	})()
	if d.limited {
		ctx, end := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- d.limitFirst(ctx) }()
		defer func() {
			end()
			err = errors.Join(err, <-done)
		}()
	}
	return d.finish(ctx)
}

// startRelay starts the relay and returns the flags by which a host reaches it.
func (d *demo) startRelay(ctx context.Context) (reach func(host, scheme string) []string, err error) {
	drop := "none"
	if d.limited {
		drop = "priority"
	}
	d.relay, err = d.stage.command(ctx, lab.RelayName, nil, "relay", "--listen", ":0", "--dev",
		"--admin", "127.0.0.1:0", "--drain", "3s", "--fastpath", d.fastPath, "--drop", drop, "--log-level", "warn")
	if err != nil {
		return nil, err
	}
	port, err := d.relaySays(ctx, "raw QUIC", `:(\d+)$`)
	if err != nil {
		return nil, err
	}
	certificate, err := d.relaySays(ctx, "certificate", `[0-9a-f]{64}`)
	if err != nil {
		return nil, err
	}
	if d.adminAddress, err = d.relaySays(ctx, "metrics", `http://([^/]+)/`); err != nil {
		return nil, err
	}
	return func(host, scheme string) []string {
		url := scheme + "://" + net.JoinHostPort(d.stage.relayAddress(host), port) + "/" + host
		return []string{"--relay", url, "--namespace", demoNamespace, "--tls-sha256", certificate}
	}, nil
}

// observe asks the relay what it has sent to each subscriber. If the relay is too busy to answer, the last answer
// stays.
func (d *demo) observe(ctx context.Context) {
	st, _, err := server.GetStatus(ctx, d.admin, d.adminAddress)
	if err != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kernel = st.FastPath != nil
	for _, s := range st.Sessions {
		d.sessions[s.Path] = s
	}
}

// session returns the last status of a host's session.
func (d *demo) session(host string) relay.SessionStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sessions["/"+host]
}

// usesKernel reports whether the relay has a fast path.
func (d *demo) usesKernel() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kernel
}

// relaySays waits for the line of the relay that contains a text. It returns the part that a pattern, or its group,
// matches.
func (d *demo) relaySays(ctx context.Context, text, pattern string) (string, error) {
	line, err := d.relay.await(ctx, text)
	if err != nil {
		return "", err
	}
	match := regexp.MustCompile(pattern).FindStringSubmatch(line)
	if match == nil {
		return "", d.relay.failure(fmt.Errorf("no %s in %q", pattern, line))
	}
	return match[len(match)-1], nil
}

func (d *demo) startSubscriber(ctx context.Context, i int, reach func(host, scheme string) []string) (err error) {
	s := &demoSubscriber{over: "QUIC"}
	scheme := "moqt"
	if i%2 == 0 {
		s.over, scheme = "WebTransport", "https"
	}
	name := lab.SubscriberName(i)
	args := append([]string{"sub", "--out", "-", "--wait", demoSetUp.String()}, reach(name, scheme)...)
	if !d.limited {
		s.got = newChecker(d.want, (*checker).readMedia)
	} else { // sluice sub --raw lists chunks as they arrive; a player would wait for missing ones
		read := (*checker).readAll
		if i == 1 {
			read = (*checker).readLimited
		}
		s.got = newChecker(d.want, read)
		args = append(args, "--raw", "--tracks", strings.Join(d.want.trackNames(), ","))
	}
	if s.process, err = d.stage.command(ctx, name, s.got.in, args...); err != nil {
		s.got.in.Close()
		return err
	}
	go func() {
		<-s.done
		s.got.in.Close()
	}()
	d.subscribers = append(d.subscribers, s)
	return nil
}

// finish waits for the publisher and the subscribers, which end after the clip, and then ends the relay.
func (d *demo) finish(ctx context.Context) error {
	if err := d.publisher.wait(ctx); err != nil {
		return err
	}
	var errs []error
	for _, s := range d.subscribers {
		errs = append(errs, s.wait(ctx))
		<-s.got.done
		if err := s.got.status().err; err != nil {
			errs = append(errs, fmt.Errorf("%s: %w: %w", s.name, errDiffers, err))
		}
	}
	d.observe(ctx)
	if err := d.relay.end(); err != nil {
		errs = append(errs, d.relay.failure(err))
	}
	return errors.Join(append(errs, d.relay.wait(ctx))...)
}

// waitAll waits for every process that was started.
func (d *demo) waitAll() {
	for _, p := range []*process{d.relay, d.publisher} {
		if p != nil {
			<-p.done
		}
	}
	for _, s := range d.subscribers {
		<-s.done
		<-s.got.done
	}
}
