package bench

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// LoadConfig is what a load generator, a process of its own, has to do. Zero values of Namespace, Track and Mock are the defaults.
type LoadConfig struct {
	Publish   bool   `json:"publish"` // else subscribe
	URL       string `json:"url"`
	Namespace string `json:"namespace"`
	Track     string `json:"track"`
	Mock      Mock   `json:"mock"`

	Clip string `json:"clip"` // a file whose video is published instead of mock video

	// Sessions subscribe, one each. The relay's certificate is not verified: it was made for the lab.
	Sessions int `json:"sessions"`
	// Record keeps every arrival of the first session.
	Record bool `json:"record"`

	// Hog keeps all processors busy for so long, and does nothing else.
	Hog time.Duration `json:"hog"`
}

const (
	loadNamespace = "bench/media"
	loadTrack     = "video"

	// loadSetUp is how long a load generator tries to reach the relay and the broadcast: all processes share the machine.
	loadSetUp = 30 * time.Second
	// connectPause is the time between two attempts.
	connectPause = 50 * time.Millisecond
)

// Commands to a load generator, one a line.
const (
	commandGo   = "go"   // the publisher starts
	commandStop = "stop" // it stops and reports; subscribers wait for this many objects, "stop 250", and report
)

// LoadEvent is a line of JSON that a load generator writes.
type LoadEvent struct {
	Ready     bool            `json:"ready,omitempty"` // what was asked for is set up
	Peer      string          `json:"peer,omitempty"`  // what implementation the relay says it is
	Published *PublishResult  `json:"published,omitempty"`
	Received  []ReceiveResult `json:"received,omitempty"` // one for each session
}

// PublishResult is what a publisher did.
type PublishResult struct {
	Objects uint64 `json:"objects"`
	Bytes   uint64 `json:"bytes"`
	Failed  uint64 `json:"failed"` // objects that could not be written
	// Late is how much later than due each frame was handed to the transport, milliseconds, not counting how long the transport was busy
	// with the frame before: that is for the relay to answer.
	Late Distribution `json:"late"`
}

// Load runs a load generator until it was told to stop, or the context is done. It reads commands from in and writes events to out.
func Load(ctx context.Context, cfg LoadConfig, in io.Reader, out io.Writer) error {
	cfg.Namespace, cfg.Track = cmp.Or(cfg.Namespace, loadNamespace), cmp.Or(cfg.Track, loadTrack)
	if cfg.Hog > 0 {
		hog(ctx, cfg.Hog)
		return nil
	}
	content, err := openMedia(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g := &generator{LoadConfig: cfg, media: content, commands: make(chan string), out: json.NewEncoder(out)}
	go g.read(ctx, in)
	if cfg.Publish {
		return g.publish(ctx)
	}
	return g.subscribe(ctx)
}

func openMedia(cfg LoadConfig) (media, error) {
	if cfg.Clip != "" {
		return openClip(cfg.Clip)
	}
	m := cfg.Mock.withDefaults()
	return m, m.validate()
}

// hog keeps all processors busy.
func hog(ctx context.Context, duration time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	var all sync.WaitGroup
	for range runtime.NumCPU() {
		all.Go(func() {
			for i := 0; i&0xfffff != 0 || ctx.Err() == nil; i++ { // a look at the clock now and then
			}
		})
	}
	all.Wait()
}

type generator struct {
	LoadConfig
	media    media
	commands chan string // closed at the end of the input: whoever gave commands is gone
	out      *json.Encoder
}

func (g *generator) read(ctx context.Context, in io.Reader) {
	defer close(g.commands)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		select {
		case g.commands <- lines.Text():
		case <-ctx.Done():
			return
		}
	}
}

// await waits for a command and returns what follows its name.
func (g *generator) await(ctx context.Context, name string) (string, error) {
	select {
	case line, ok := <-g.commands:
		if !ok {
			return "", io.ErrUnexpectedEOF
		}
		command, argument, _ := strings.Cut(line, " ")
		if command != name {
			return "", fmt.Errorf("command %q where %q was due", line, name)
		}
		return argument, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (g *generator) name() moqt.FullTrackName {
	return moqt.FullTrackName{Namespace: strings.Split(g.Namespace, "/"), Name: g.Track}
}

// connection is a session with the relay, and its end.
type connection struct {
	*session.Session
	peer string
	wait sync.WaitGroup
}

func (c *connection) close() {
	c.Close(moqt.SessionNoError, "")
	c.wait.Wait()
}

// connect opens a session; a relay that was just started is given time.
func (g *generator) connect(ctx context.Context, h session.Handler) (*connection, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, loadSetUp, fmt.Errorf("no session with %s within %v", g.URL, loadSetUp))
	defer cancel()
	for {
		c, err := g.tryConnect(ctx, h)
		if err == nil {
			return c, nil
		}
		select {
		case <-time.After(connectPause):
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		}
	}
}

func (g *generator) tryConnect(ctx context.Context, h session.Handler) (*connection, error) {
	url, err := transport.ParseURL(g.URL)
	if err != nil {
		return nil, err
	}
	// A handshake that meets a closed port, because the relay still starts, would wait for its next packet.
	conn, err := transport.Dial(ctx, g.URL, transport.ClientConfig{
		Protocols: moqt.ALPNs(), Insecure: true, Limits: transport.Limits{HandshakeTimeout: 5 * time.Second},
	})
	if err != nil {
		return nil, err
	}
	s, err := session.New(conn, session.Config{
		Role: session.Client, Handler: h, Authority: url.Authority, Path: cmp.Or(url.Path, "/"), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, errors.Join(err, conn.CloseWithError(0, ""))
	}
	c := &connection{Session: s}
	c.wait.Go(func() { s.Run(context.WithoutCancel(ctx)) })
	peer, err := s.Peer(ctx)
	if err != nil {
		c.close()
		return nil, err
	}
	c.peer = peer.Implementation
	return c, nil
}
