package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"sluice/lab"
)

const (
	crashSubscribers = 2
	crashPort        = "4443"
	// crashWarmup is how long media flows before something is killed: longer than a group.
	crashWarmup = 3 * time.Second
	// crashPatience is how long to wait for media: longer than an idle timeout with the probes before it.
	crashPatience = 90 * time.Second
)

var (
	crashVictims = []string{lab.RelayName, lab.PublisherName}
	crashSchemes = []string{"moqt", "https"}
)

// crashes measures how clients fare when a process is killed.
type crashes struct {
	stage    stage
	dir      string // of the certificate
	clip     string
	tracks   []string
	fastPath string
	down     time.Duration

	times map[crashCell][]float64 // in seconds
}

// crashCell is a cell of the table.
type crashCell struct {
	victim, client string
	what           string // crashNoticed or crashBack
}

const (
	crashNoticed = "noticed"
	crashBack    = "media again"
)

// crashTry is a run: processes, one of them killed.
type crashTry struct {
	*crashes
	scheme      string // of the publisher
	processes   map[string]*process
	subscribers map[string]*arrivals
}

// try runs the broadcast, kills the victim, starts it again and waits for media.
func (c *crashes) try(ctx context.Context, victim, scheme string) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, crashPatience+2*demoSetUp, errors.New("no media comes back"))
	defer cancel()
	t := &crashTry{
		crashes: c, scheme: scheme, processes: make(map[string]*process), subscribers: make(map[string]*arrivals),
	}
	defer t.end()
	if err := t.begin(ctx); err != nil {
		return err
	}
	killed := time.Now()
	old := t.processes[victim]
	if err := old.cmd.Process.Kill(); err != nil {
		return old.failure(err)
	}
	<-old.done
	noticed := t.watch(ctx, victim, killed)
	if err := wait(ctx, c.down); err != nil {
		return err
	}
	again := time.Now()
	if err := t.start(ctx, victim); err != nil {
		return err
	}
	for name, a := range t.subscribers {
		at, err := a.after(ctx, again)
		if err != nil {
			return t.processes[name].failure(err)
		}
		c.note(crashCell{victim, name, crashBack}, at.Sub(killed))
	}
	for n := range noticed {
		c.note(crashCell{victim, n.client, crashNoticed}, n.after)
	}
	return nil
}

// begin starts all processes, and waits until media has flowed for a while.
func (t *crashTry) begin(ctx context.Context) error {
	if err := t.start(ctx, lab.RelayName); err != nil {
		return err
	}
	if _, err := t.processes[lab.RelayName].await(ctx, "raw QUIC"); err != nil {
		return err
	}
	for i := range crashSubscribers {
		name := lab.SubscriberName(i + 1)
		t.subscribers[name] = newArrivals()
		if err := t.start(ctx, name); err != nil {
			return err
		}
		if _, err := t.processes[name].await(ctx, "session started"); err != nil {
			return err
		}
	}
	if err := t.start(ctx, lab.PublisherName); err != nil {
		return err
	}
	for name, a := range t.subscribers {
		if _, err := a.after(ctx, time.Time{}); err != nil {
			return t.processes[name].failure(err)
		}
	}
	return wait(ctx, crashWarmup)
}

// start starts the process of a host.
func (t *crashTry) start(ctx context.Context, host string) (err error) {
	var out io.Writer
	var args []string
	reach := func(scheme string) []string {
		url := scheme + "://" + net.JoinHostPort(t.stage.relayAddress(lab.RelayName, host), crashPort)
		return []string{"--relay", url, "--namespace", demoNamespace, "--tls-disable-verify"}
	}
	switch host {
	case lab.RelayName:
		args = []string{"relay", "--listen", ":" + crashPort, "--tls-cert", filepath.Join(t.dir, "cert.pem"),
			"--tls-key", filepath.Join(t.dir, "key.pem"), "--admin", "", "--fastpath", t.fastPath}
	case lab.PublisherName:
		args = append([]string{"pub", "--loop", t.clip}, reach(t.scheme)...)
	default: // --raw lists objects as they arrive; a player would wait for those before them
		out = t.subscribers[host]
		args = append([]string{"sub", "--raw", "--tracks", strings.Join(t.tracks, ","), "--out", "-", "--wait",
			demoSetUp.String()}, reach(subscriberScheme(host))...)
	}
	t.processes[host], err = t.stage.command(ctx, host, out, args...)
	return err
}

// subscriberScheme returns moqt for the first subscriber and https for the second one.
func subscriberScheme(host string) string {
	if host == lab.SubscriberName(1) {
		return "moqt"
	}
	return "https"
}

// lost is when a client has noticed that its session was lost.
type lost struct {
	client string
	after  time.Duration
}

// watch waits in the background until the clients have noticed that the relay was killed. If it was the publisher, none
// has to.
func (t *crashTry) watch(ctx context.Context, victim string, killed time.Time) <-chan lost {
	noticed := make(chan lost, len(t.processes))
	var clients sync.WaitGroup
	for name, p := range t.processes {
		if victim != lab.RelayName || name == victim {
			continue
		}
		clients.Go(func() {
			if _, err := p.await(ctx, "session lost"); err == nil {
				noticed <- lost{name, time.Since(killed)}
			}
		})
	}
	go func() {
		clients.Wait()
		close(noticed)
	}()
	return noticed
}

// end ends all processes.
func (t *crashTry) end() {
	for _, p := range t.processes {
		_ = p.cmd.Process.Kill() // fails if it has ended
		<-p.done
	}
}

func (c *crashes) note(cell crashCell, d time.Duration) {
	c.times[cell] = append(c.times[cell], d.Round(10*time.Millisecond).Seconds())
}

// print writes the table.
func (c *crashes) print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nKILLED\tCLIENT\tNOTICED\tMEDIA AGAIN")
	for _, victim := range crashVictims {
		for _, client := range []string{lab.PublisherName, lab.SubscriberName(1), lab.SubscriberName(2)} {
			if client == victim {
				continue
			}
			name := client
			if client != lab.PublisherName {
				name += ", " + subscriberScheme(client)
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", victim, name,
				summary(c.times[crashCell{victim, client, crashNoticed}]),
				summary(c.times[crashCell{victim, client, crashBack}]))
		}
	}
	return table.Flush()
}

// arrivals records when a subscriber writes about objects that have arrived.
type arrivals struct {
	mu      sync.Mutex
	last    time.Time
	changed chan struct{} // closed when something arrives
}

func newArrivals() *arrivals { return &arrivals{changed: make(chan struct{})} }

func (a *arrivals) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = time.Now()
	close(a.changed)
	a.changed = make(chan struct{})
	return len(b), nil
}

// after waits for something that arrives after a time, and returns when it has arrived.
func (a *arrivals) after(ctx context.Context, start time.Time) (time.Time, error) {
	for {
		a.mu.Lock()
		last, changed := a.last, a.changed
		a.mu.Unlock()
		if last.After(start) {
			return last, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return last, context.Cause(ctx)
		}
	}
}

// wait waits for a time.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
