package rtsp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	"github.com/bluenviron/gortsplib/v5/pkg/base"
	"github.com/bluenviron/gortsplib/v5/pkg/description"

	"sluice/moqt"
	"sluice/player/client"
	"sluice/player/cmaf"
	"sluice/player/sub"
	"sluice/relay"
	"sluice/transport"
)

// downlink has the stream of a MoQ broadcast, for as long as RTSP clients want it. It subscribes over a session of the
// relay with itself, with the permissions of its players.
type downlink struct {
	server    *Server
	namespace moqt.Namespace
	choice    choice
	source    netip.Prefix // of the player that wanted it first
	start     func()       // when it has a guest
	cancel    context.CancelFunc
	wanted    int             // by players; guarded by Server.mu
	over      <-chan struct{} // closed when nobody wants it any more
	audience  *relay.Audience
	share     *share

	ready  chan struct{} // closed when stream or err is known
	stream *stream
	err    error

	packers map[uint32]*packer // by the IDs of tracks
	began   time.Time          // when the first frame came
	zero    time.Duration      // the time of that frame
	burst   int                // packets since mark
	mark    time.Time
}

// ownSessionMemory bounds the bytes in the windows of a downlink's session (server.Server.DialOwn), and its buffers.
const ownSessionMemory = 2 << 20

var (
	errNoMemory    = errors.New("there is no memory for another broadcast")
	errNoBroadcast = errors.New("the broadcast has not begun in time: try again later")
	errUnreadable  = errors.New("the broadcast cannot be read: the log of the relay says why")
	errCodecs      = errors.New("the broadcast has no track that RTSP players can get: H.264, H.265, AV1, AAC or Opus")
)

// describeWait is how long DESCRIBE waits for the first frames of a broadcast, from which it makes the description.
const describeWait = 10 * time.Second

// want returns the downlink that has a choice of a broadcast for a guest, when it is ready. The caller has to call
// leave, if there is no error.
func (s *Server) want(ns moqt.Namespace, c choice, source netip.Prefix, guest *relay.Guest) (*downlink, error) {
	for {
		d, err := s.downlink(ns, c, source)
		if err != nil {
			return nil, err
		}
		if err = d.admit(guest); err == nil {
			return d, nil
		}
		if d.leave(guest); !errors.Is(err, relay.ErrAudienceOver) {
			return nil, err
		}
		d.forget() // it ends, with those whom it was refused
	}
}

// admit waits until the downlink is ready. The guest has to have permission for all tracks that it plays by then.
func (d *downlink) admit(guest *relay.Guest) error {
	ctx, cancel := context.WithTimeoutCause(guest.Context(), describeWait, errNoBroadcast)
	defer cancel()
	if err := d.audience.Join(ctx, guest); err != nil {
		return err
	}
	d.start()
	select {
	case <-d.ready:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // what refuses the guest says more than what the downlink has ended for
	}
	return d.err
}

// downlink returns the downlink of a broadcast, which the caller wants, and has to start.
func (s *Server) downlink(ns moqt.Namespace, c choice, source netip.Prefix) (*downlink, error) {
	if s.cfg.DialOwn == nil {
		return nil, errNoStream
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := keyOf(ns, c)
	d := s.downlinks[key]
	if d == nil {
		if err := s.roomLocked(c, source); err != nil {
			return nil, err
		}
		d = &downlink{
			server: s, namespace: ns, choice: c, source: source, ready: make(chan struct{}),
			audience: relay.NewAudience(), share: s.pool.share(source),
		}
		if !d.share.Take(ownSessionMemory) {
			return nil, errNoMemory
		}
		var ctx context.Context
		ctx, d.cancel = context.WithCancel(s.playing)
		d.over = ctx.Done()
		d.start = sync.OnceFunc(func() { s.links.Go(func() { d.run(ctx) }) })
		s.downlinks[key] = d
	}
	d.wanted++
	return d, nil
}

// leave is called when a player does not want the broadcast any more. On a nil downlink it does nothing.
func (d *downlink) leave(guest *relay.Guest) {
	if d == nil {
		return
	}
	d.audience.Leave(guest)
	d.server.mu.Lock()
	defer d.server.mu.Unlock()
	if d.wanted--; d.wanted == 0 {
		d.forgetLocked()
		d.cancel()
		d.share.end() // it may never have started
	}
}

func (d *downlink) forget() {
	d.server.mu.Lock()
	defer d.server.mu.Unlock()
	d.forgetLocked()
}

// forgetLocked makes the next player begin anew; Server.mu is held.
func (d *downlink) forgetLocked() {
	if key := keyOf(d.namespace, d.choice); d.server.downlinks[key] == d {
		delete(d.server.downlinks, key)
	}
}

// run plays the broadcast until it ends, or nobody wants it.
func (d *downlink) run(ctx context.Context) {
	defer d.cancel()
	defer d.share.end()
	in, out := io.Pipe()
	d.server.links.Go(func() { _ = out.CloseWithError(d.subscribe(ctx, out)) }) // never fails
	err := d.read(in)
	_ = in.CloseWithError(err) // the same
	d.forget()
	if d.stream == nil {
		if d.err = context.Cause(ctx); d.err == nil {
			d.err = d.plain(err)
		}
		close(d.ready)
		return
	}
	d.stream.close()
	if ctx.Err() == nil && err != io.EOF {
		d.server.log.Warn("RTSP clients do not get a MoQ broadcast any more", "namespace", d.namespace, "err", err)
	}
}

// plain returns the error for a client that cannot have a broadcast. Details that would tell it nothing are logged.
func (d *downlink) plain(err error) error {
	refused, ok := errors.AsType[*moqt.RequestError](err)
	switch {
	case ok && refused.Code.Effective() == moqt.RequestDoesNotExist:
		return errNoStream
	case ok:
		return refused
	case statusOf(err) != base.StatusInternalServerError:
		return err
	}
	d.server.log.Warn("RTSP clients do not get a MoQ broadcast", "namespace", d.namespace, "err", err)
	return errUnreadable
}

// subscribe writes the broadcast as fragmented MP4. It returns io.EOF at the end.
func (d *downlink) subscribe(ctx context.Context, out io.Writer) error {
	cfg := sub.PlayerConfig{
		Namespace: d.namespace, Out: out, Hold: d.server.cfg.Hold, Memory: d.share,
		Client: client.SessionConfig{
			URL: ownURL, ReconnectTimeout: -1,
			Logger: slog.New(slog.DiscardHandler), // it is this relay that would be named in each line
			Dial: func(ctx context.Context, _ string, _ transport.ClientConfig) (transport.Conn, error) {
				return d.server.cfg.DialOwn(ctx, d.audience)
			},
		},
	}
	d.choice.apply(&cfg)
	_, err := sub.Run(ctx, cfg, nil)
	if err == nil {
		return io.EOF
	}
	return err
}

// read makes packets of the frames of fragmented MP4, until its end. Libraries take apart bytes which a publisher has
// made up: if one panics, this broadcast ends, and not the relay.
func (d *downlink) read(in io.Reader) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v\n%s", p, debug.Stack())
		}
	}()
	counted := &countedReader{in: in, share: d.share}
	r := cmaf.NewReader(counted)
	init, err := r.Init()
	if err != nil {
		return err
	}
	if err := d.begin(init); err != nil {
		return err
	}
	for {
		c, err := r.Next()
		if err != nil {
			return err
		}
		if p := d.packers[c.Track]; p != nil {
			d.write(p, init, c)
		}
		counted.done()
	}
}

// countedReader takes memory for the bytes read since the last call of done.
type countedReader struct {
	in    io.Reader
	share *share
	taken int
}

// Read implements [io.Reader].
func (r *countedReader) Read(b []byte) (int, error) {
	n, err := r.in.Read(b)
	if !r.share.Take(n) {
		return n, errNoMemory
	}
	r.taken += n
	return n, err
}

func (r *countedReader) done() {
	r.share.Give(r.taken)
	r.taken = 0
}

// begin makes the stream.
func (d *downlink) begin(init *cmaf.Init) error {
	desc, failed := &description.Session{}, error(nil)
	d.packers = make(map[uint32]*packer)
	for _, t := range init.Tracks {
		p, err := newPacker(t)
		if err != nil {
			failed = fmt.Errorf("%w: track %d: %w", errCodecs, t.ID, err)
		}
		if p != nil && len(desc.Medias) < maxMedias {
			d.packers[t.ID] = p
			desc.Medias = append(desc.Medias, p.media)
		}
	}
	if len(desc.Medias) == 0 {
		return cmp.Or(failed, errCodecs)
	}
	d.stream = newStream(desc, d.server.cached.share(d.source), d.server.metrics)
	d.stream.demand, d.stream.policy = d, d.server.policy()
	close(d.ready)
	return nil
}

// write gives the packets of a chunk to the stream. Frames that cannot be taken apart are left out.
func (d *downlink) write(p *packer, init *cmaf.Init, c cmaf.Chunk) {
	samples, err := init.Samples(c.Data)
	if err != nil {
		d.server.metrics.ignored.WithLabelValues(ignoredMalformed).Inc()
		return
	}
	for _, s := range samples {
		packets, err := p.packets(s)
		if err != nil {
			d.server.metrics.ignored.WithLabelValues(ignoredMalformed).Inc()
			continue
		}
		ntp := d.ntp(p.track.Time(p.present(s)))
		for _, one := range packets {
			d.pace()
			d.stream.write(p.media, one, time.Now(), ntp)
		}
	}
}

// ntp returns when a frame with this time was sampled, if that is known: all tracks have the same clock.
func (d *downlink) ntp(at time.Duration) time.Time {
	if d.began.IsZero() {
		d.began, d.zero = time.Now(), at
	}
	return d.began.Add(at - d.zero)
}

// pace waits so that packets do not come faster than a player that catches up gets them: an object may have many
// frames. It does not wait at the end: Server.Close would.
func (d *downlink) pace() {
	if d.burst++; d.burst < burst {
		return
	}
	select {
	case <-time.After(time.Until(d.mark.Add(burstInterval))):
	case <-d.over:
	}
	d.burst, d.mark = 0, time.Now()
}

// ownURL is the URL of a session of the relay with itself. RTSP clients are in the scope of the path "/".
const ownURL = "moqt://localhost/"
