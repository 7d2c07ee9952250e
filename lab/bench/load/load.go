package load

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/lab/bench/procfs"
	"sluice/lab/bench/result"
	"sluice/lab/bench/video"
	"sluice/moqt"
)

// GeneratorConfig is the task of a load generator. Zero values of Namespace and Mock mean the defaults.
type GeneratorConfig struct {
	Publish   bool       `json:"publish"` // otherwise subscribe
	URL       string     `json:"url"`     // moqt:, or rtsp: for clients that use RTSP, with RTP by UDP
	Namespace string     `json:"namespace"`
	Mock      video.Mock `json:"mock"`

	// Audio adds a track with mock audio.
	Audio bool `json:"audio"`
	// Ladder publishes all renditions of the mock video, and has the relay choose among them for subscribers, who by
	// default have the best one only.
	Ladder bool `json:"ladder,omitempty"`

	// Others are the namespaces of the other participants in a conference. The generator then publishes, and receives
	// the video of all others in the same session, with every arrival.
	Others []string `json:"others,omitempty"`

	// Program are the words of a publisher or a player that the generator runs, one for each session, in place of its
	// own clients. It reads the video from its standard input, or writes it to its standard output, as fragmented MP4,
	// which Init describes.
	Program []string `json:"program,omitempty"`
	Init    []byte   `json:"init,omitempty"`

	// Sessions is the number of sessions, each with one subscription. The relay's certificate is not verified: it was
	// made for the lab.
	Sessions int `json:"sessions"`
	// Record keeps every arrival of the first session.
	Record bool `json:"record"`

	// Hog keeps all processors busy for this time. The generator then does nothing else.
	Hog time.Duration `json:"hog"`
	// Ping is an address that is pinged. The generator then does nothing else.
	Ping string `json:"ping"`
}

const (
	// Namespace is the default one.
	Namespace   = "bench/media"
	videoTrack  = "video"
	audioSuffix = "-audio" // of its track

	// SetUpTime is how long a load generator tries to reach the relay and the broadcast. All processes share the
	// machine.
	SetUpTime = 30 * time.Second
	// Stragglers is how long subscribers wait for objects after the last one was published.
	Stragglers = 3 * time.Second
)

// Commands to a load generator, one a line.
const (
	Go   = "go"   // the publisher or the bystander starts
	Join = "join" // a participant in a conference subscribes to all others, whose namespaces are announced
	Used = "used" // reports the CPU time so far
	// Count reports the frames that have arrived at subscribers so far.
	Count = "count"
	Stop  = "stop" // it stops and reports; subscribers report when they have so many objects: "stop 250"
)

// Event is a line of JSON that a load generator writes.
type Event struct {
	Ready     bool       `json:"ready,omitempty"` // all sessions are set up
	Peer      string     `json:"peer,omitempty"`  // the implementation that the relay names
	Published *Published `json:"published,omitempty"`
	Received  []Received `json:"received,omitempty"` // one for each session
	Pinged    *Pinged    `json:"pinged,omitempty"`
	Delivered *uint64    `json:"delivered,omitempty"` // frames
	Failed    string     `json:"failed,omitempty"`    // why a load generator on another machine has ended
	// Used is the CPU time of a load generator so far. Where it shares a machine with the bench, the bench reads this
	// itself.
	Used *procfs.ProcessTimes `json:"used,omitempty"`
}

// Published is the report of a publisher.
type Published struct {
	Objects uint64 `json:"objects"`
	Bytes   uint64 `json:"bytes"`
	Failed  uint64 `json:"failed"`            // objects that could not be written
	Packets uint64 `json:"packets,omitempty"` // of RTP
	// Late is how much later than due each frame was handed to the transport, milliseconds. The time while the
	// transport did not take the frame before it does not count: it depends on the relay.
	Late result.Distribution `json:"late"`
}

// Add adds what another publisher has published. Late stays as it is.
func (p *Published) Add(o *Published) {
	p.Objects += o.Objects
	p.Bytes += o.Bytes
	p.Failed += o.Failed
	p.Packets += o.Packets
}

// Received is the report of one session.
type Received struct {
	Objects    uint64 `json:"objects"` // complete, intact and new
	Bytes      uint64 `json:"bytes"`
	Corrupt    uint64 `json:"corrupt"` // objects whose content does not belong in their place
	Duplicates uint64 `json:"duplicates"`
	Packets    uint64 `json:"packets,omitempty"`    // of RTP
	Disordered uint64 `json:"disordered,omitempty"` // of these, packets that came after a later one
	// Arrivals and, of the audio, Audio are there if Config.Record is set. All else is about the video.
	Arrivals []video.Arrival `json:"arrivals,omitempty"`
	Audio    []video.Arrival `json:"audio,omitempty"`
}

// Run runs a load generator until it has had its last command, or the context is done. It reads commands from in and
// writes events to out.
func Run(ctx context.Context, cfg GeneratorConfig, in io.Reader, out io.Writer) error {
	cfg.Namespace, cfg.Mock = cmp.Or(cfg.Namespace, Namespace), cfg.Mock.WithDefaults()
	if cfg.Hog > 0 {
		hog(ctx, cfg.Hog)
		return nil
	}
	debug.SetGCPercent(garbagePercent)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g := &generator{
		GeneratorConfig: cfg, commands: make(chan string), out: &events{encoder: json.NewEncoder(out)},
	}
	go g.read(ctx, in)
	switch isRTSP := strings.HasPrefix(cfg.URL, "rtsp:"); {
	case cfg.Ping != "":
		return g.ping(ctx)
	case len(g.Program) > 0 && cfg.Publish:
		return program{g}.publish(ctx)
	case len(g.Program) > 0:
		return program{g}.play(ctx)
	case isRTSP && cfg.Publish:
		return g.record(ctx)
	case isRTSP:
		return g.play(ctx)
	case len(g.Others) > 0:
		return g.confer(ctx)
	case cfg.Publish:
		return g.publish(ctx)
	}
	return g.subscribe(ctx)
}

// garbagePercent is how much garbage a load generator may have, in per cent of the memory in use. Nobody measures its
// memory, and each collection takes CPU time from the relay.
const garbagePercent = 800

// hog keeps all processors busy.
func hog(ctx context.Context, duration time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	var all sync.WaitGroup
	for range runtime.NumCPU() {
		all.Go(func() {
			for i := 0; i&0xfffff != 0 || ctx.Err() == nil; i++ { // it looks at the context now and then
			}
		})
	}
	all.Wait()
}

// generator is a load generator that publishes or subscribes.
type generator struct {
	GeneratorConfig
	commands chan string // closed at the end of the input
	out      *events

	receivers atomic.Pointer[[]*receiver] // of all sessions; nil: they are not set up
}

// delivered returns the frames that have arrived so far.
func (g *generator) delivered() (sum uint64) {
	if all := g.receivers.Load(); all != nil {
		for _, r := range *all {
			sum += r.result().Objects
		}
	}
	return sum
}

// events writes events, from any goroutine.
type events struct {
	mu      sync.Mutex
	encoder *json.Encoder
}

func (e *events) Encode(event Event) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.encoder.Encode(event)
}

func (g *generator) read(ctx context.Context, in io.Reader) {
	defer close(g.commands)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		switch lines.Text() {
		case Used:
			if used, err := procfs.ReadTimes(os.Getpid()); err != nil || g.out.Encode(Event{Used: &used}) != nil {
				return // the bench misses the answer
			}
			continue
		case Count:
			d := g.delivered()
			if g.out.Encode(Event{Delivered: &d}) != nil {
				return
			}
			continue
		}
		select {
		case g.commands <- lines.Text():
		case <-ctx.Done():
			return
		}
	}
}

// await waits for a command and returns its argument.
func (g *generator) await(ctx context.Context, name string) (string, error) {
	select {
	case line, ok := <-g.commands:
		if !ok {
			return "", io.ErrUnexpectedEOF
		}
		command, argument, _ := strings.Cut(line, " ")
		if command != name {
			return "", fmt.Errorf("command: %q: must be %q", line, name)
		}
		return argument, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (g *GeneratorConfig) name() moqt.FullTrackName { return g.nameIn(g.Namespace) }

func (g *GeneratorConfig) nameIn(namespace string) moqt.FullTrackName {
	return moqt.FullTrackName{Namespace: strings.Split(namespace, "/"), Name: videoTrack}
}

// renditionName returns the name of the track with a rendition, by its rank. The best one is the track that subscribers
// without a ladder have.
func (g *GeneratorConfig) renditionName(rank, best int) moqt.FullTrackName {
	name := g.name()
	if rank != best {
		name.Name += fmt.Sprintf("-%d", rank)
	}
	return name
}

// audioName returns the name of the track with audio.
func (g *GeneratorConfig) audioName() moqt.FullTrackName {
	name := g.name()
	name.Name += audioSuffix
	return name
}

// climb subscribes to all renditions of the video, among which the relay chooses. It begins with the best one.
func (g *generator) climb(ctx context.Context, c *connection, r *receiver) error {
	peer, err := c.Peer(ctx)
	if err != nil {
		return err
	}
	if !peer.Renditions || c.Version() < moqt.Draft18 {
		return errCannotChoose
	}
	of := g.Mock.Ladder()
	best := len(of) - 1
	for rank := best; rank >= 0; rank-- {
		p := moqt.Parameters{Rendition: &moqt.Rendition{Bitrate: uint64(of[rank].Rate)}}
		from := moqt.FilterLargestObject
		if rank != best {
			p.Forward, from = new(false), moqt.FilterRelativeStart
		}
		if err := c.subscribe(ctx, g.renditionName(rank, best), from, p, rung{r, rank}); err != nil {
			return err
		}
	}
	return nil
}

// record publishes the video by RTSP between the commands Go and Stop.
func (g *generator) record(ctx context.Context) error {
	var r *recorder
	err := g.retry(ctx, func(context.Context) (err error) {
		r, err = newRecorder(g.rtspURL())
		return err
	})
	if err != nil {
		return err
	}
	defer r.client.Close()
	if err := g.out.Encode(Event{Ready: true}); err != nil {
		return err
	}
	rest := r.stayAlive(ctx)
	_, err = g.await(ctx, Go)
	rest()
	if err != nil {
		return err
	}
	done, err := feed(ctx, time.Now(), g.Mock, g.commands, r.send)
	if err != nil {
		return err
	}
	done.Packets = r.packets
	return g.published(ctx, done)
}

// rtspURL returns the URL of the broadcast.
func (g *GeneratorConfig) rtspURL() string { return g.URL + "/" + g.Namespace }

// play plays the broadcast in all sessions.
func (g *generator) play(ctx context.Context) error {
	return g.receive(ctx, func(r *receiver) (end func(), err error) {
		err = g.retry(ctx, func(context.Context) error {
			c, err := playInto(newFrameReader(r), g.rtspURL())
			if err == nil {
				end = c.Close
			}
			return err
		})
		return end, err
	})
}

// subscribe subscribes in all sessions.
func (g *generator) subscribe(ctx context.Context) error {
	return g.receive(ctx, func(r *receiver) (end func(), err error) {
		c, err := g.join(ctx, r)
		if err == nil {
			end = c.close
		}
		return end, err
	})
}

// parallelSessions is how many sessions are set up at a time.
const parallelSessions = 8

// receive opens all sessions, and reports when each has received as many objects as the command Stop names. open
// returns how to end its session, or nil.
func (g *generator) receive(ctx context.Context, open func(*receiver) (end func(), err error)) error {
	receivers, ends := make([]*receiver, g.Sessions), make([]func(), g.Sessions)
	defer func() {
		var all sync.WaitGroup
		for _, end := range ends {
			if end != nil {
				all.Go(end)
			}
		}
		all.Wait()
	}()
	var group errgroup.Group
	group.SetLimit(parallelSessions)
	for i := range receivers {
		receivers[i] = newReceiver(g.Mock, g.Record && i == 0)
		if g.Audio {
			receivers[i].audio = newReceiver(video.Audio, g.Record && i == 0)
		}
		group.Go(func() (err error) {
			ends[i], err = open(receivers[i])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := g.ready(receivers); err != nil {
		return err
	}
	return g.report(ctx, receivers)
}

// ready reports that the generator has subscribed. Objects come to the receivers.
func (g *generator) ready(receivers []*receiver) error {
	g.receivers.Store(&receivers)
	return g.out.Encode(Event{Ready: true})
}

// join opens a session and subscribes.
func (g *generator) join(ctx context.Context, r *receiver) (*connection, error) {
	c, err := g.connect(ctx, nil)
	if err != nil {
		return nil, err
	}
	if g.Ladder {
		err = g.climb(ctx, c, r)
	} else {
		err = c.subscribe(ctx, g.name(), moqt.FilterLargestObject, moqt.Parameters{}, r)
	}
	if err == nil && r.audio != nil {
		err = c.subscribe(ctx, g.audioName(), moqt.FilterLargestObject, moqt.Parameters{}, r.audio)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// report waits for the command Stop, then for the objects that are still under way.
func (g *generator) report(ctx context.Context, receivers []*receiver) error {
	argument, err := g.await(ctx, Stop)
	if err != nil {
		return err
	}
	expected, err := strconv.ParseUint(argument, 10, 64)
	if err != nil {
		return fmt.Errorf("command: %s %q: must have a number of objects: %w", Stop, argument, err)
	}
	deadline, cancel := context.WithTimeout(ctx, Stragglers)
	defer cancel()
	for _, r := range receivers {
		r.waitFor(deadline, expected)
		if r.settle != nil {
			r.settle()
		}
	}
	results := make([]Received, len(receivers))
	for i, r := range receivers {
		results[i] = r.result()
	}
	return g.out.Encode(Event{Received: results})
}

// confer publishes the video, and receives all others' in the same session.
func (g *generator) confer(ctx context.Context) error {
	h := g.newPublisher()
	c, err := g.offer(ctx, h)
	if err != nil {
		return err
	}
	defer c.close()
	if _, err := g.await(ctx, Join); err != nil {
		return err
	}
	receivers := make([]*receiver, len(g.Others))
	for i, other := range g.Others {
		receivers[i] = newReceiver(g.Mock, true)
		track := g.nameIn(other)
		if err := c.subscribe(ctx, track, moqt.FilterLargestObject, moqt.Parameters{}, receivers[i]); err != nil {
			return err
		}
	}
	if err := g.ready(receivers); err != nil {
		return err
	}
	done, err := g.perform(ctx, h)
	if err != nil {
		return err
	}
	if err := g.out.Encode(Event{Published: done}); err != nil {
		return err
	}
	if err := g.report(ctx, receivers); err != nil {
		return err
	}
	_, err = g.await(ctx, Stop) // others may still lack objects
	return err
}

// Pinged is the report of a bystander on the pings between two commands.
type Pinged struct {
	// Delays are the times from when a ping was due until its reply arrived, milliseconds, sorted. They count from when
	// a ping was due, because a processor that is taken keeps a bystander from sending, too.
	Delays []float64 `json:"delays"`
	Lost   int       `json:"lost"` // pings without a reply
}
