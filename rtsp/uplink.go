package rtsp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/pion/rtp"

	"sluice/player/client"
	"sluice/player/cmaf"
	"sluice/player/pub"
	"sluice/transport"
)

// uplink publishes a stream as a MoQ broadcast, over a session of the publisher with the relay. It takes packets from a
// queue, so that players of the stream never wait for it.
type uplink struct {
	tracks map[*description.Media]*frames // does not change
	order  []*frames
	queue  chan arrival
	queued budget         // the memory of arrivals in queue
	out    *io.PipeWriter // fragmented MP4 for package pub

	begun  atomic.Bool      // the init segment has been written
	late   <-chan time.Time // when to begin at the latest; nil: no track is ready
	chunks [][]byte         // before the beginning
	early  budget           // for chunks

	resuming *resumption   // nil: all tracks have gone on
	gap      bool          // the next packet is the first one after a gap
	since    time.Duration // when that was due

	last  time.Duration // the latest time of all packets
	shift time.Duration // added to its times by the track whose times jumped back last
}

// arrival is a packet with its time in units of its clock, or a resumption.
type arrival struct {
	media *description.Media
	rtp   *rtp.Packet
	at    int64

	resume *resumption // nil: a packet
}

// Limits of packets that wait to be taken apart. Packets from a TCP connection may have 64 KiB.
const (
	maxResumptions   = 4 // more than come while one is taken
	uplinkQueue      = 1024
	uplinkQueueBytes = 4 << 20
)

// newUplink returns nil if no media of the description can be in a MoQ broadcast.
func newUplink(desc *description.Session, out *io.PipeWriter, share *share) *uplink {
	u := &uplink{
		tracks: make(map[*description.Media]*frames), out: out,
		queue: make(chan arrival, uplinkQueue+maxResumptions),
	}
	u.queued.max, u.queued.share = uplinkQueueBytes, share
	u.early.max, u.early.share = maxEarlyBytes, share
	room := &budget{max: maxHeldInAll, share: share}
	for _, m := range desc.Medias {
		if len(m.Formats) != 1 {
			continue // nobody says which one is used
		}
		if f := newFrames(uint32(len(u.order)+1), m.Formats[0], room); f != nil {
			u.tracks[m] = f
			u.order = append(u.order, f)
		}
	}
	if len(u.order) == 0 {
		return nil
	}
	return u
}

// offer queues a packet of a track, and reports whether there is room. Nobody else may queue at the same time.
func (u *uplink) offer(a arrival) bool {
	if len(u.queue) >= uplinkQueue || !u.queued.take(memory(a.rtp)) {
		return false
	}
	u.queue <- a
	return true
}

// run takes packets until the queue is closed, and ends the broadcast. It returns an error if it has ended before.
func (u *uplink) run() (err error) {
	defer func() {
		if u.resuming != nil {
			close(u.resuming.done)
		}
		if !u.begun.Load() {
			_ = u.out.CloseWithError(errNothing) // never fails
		}
		_ = u.out.Close() // never fails
	}()
	for more := true; more && err == nil; {
		more, err = u.step()
	}
	return err
}

// step takes the next packet, or begins the broadcast when its time has come. Libraries take apart bytes which a
// client has made up: if one panics, this broadcast ends, and not the relay.
func (u *uplink) step() (more bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v\n%s", p, debug.Stack())
		}
	}()
	select {
	case a, more := <-u.queue:
		switch {
		case a.resume != nil:
			u.resume(a.resume)
		case more:
			u.queued.give(memory(a.rtp))
			u.take(a)
			u.checkResumed()
		}
		return more, nil
	case <-u.late:
		u.begin()
		return true, nil
	}
}

func (u *uplink) take(a arrival) {
	f := u.tracks[a.media]
	if u.begun.Load() && !f.ready() {
		return // it is not in the broadcast
	}
	// A second more: reordered frames have decode times before their presentation times.
	at := u.time(f, a.at) + int64(f.rate)
	if u.gap {
		u.gap, u.since = false, u.last
	}
	for _, c := range f.add(a.rtp, at) {
		u.write(c)
	}
}

// resume goes on after a time without packets.
func (u *uplink) resume(r *resumption) {
	if r.gap {
		u.gap = true
		for _, f := range u.order {
			f.renew()
			f.late, f.alone = f.ready(), false
		}
	}
	if u.resuming != nil {
		close(u.resuming.done) // nobody waits for it: the lift slept in between, so its requests had ended
	}
	u.resuming = r
	for _, a := range r.packets {
		u.take(a)
	}
	u.checkResumed()
}

// checkResumed ends a resumption when all tracks have gone on, or have waited for a key frame for too long. Then sound
// does not wait for the picture, which may have paused, or never have another key frame.
func (u *uplink) checkResumed() {
	if u.resuming == nil {
		return
	}
	if slices.ContainsFunc(u.order, func(f *frames) bool { return f.late }) {
		if u.gap || u.last-u.since <= patience {
			return
		}
		for _, f := range u.order {
			f.alone = true
		}
	}
	// The reader takes even nothing only when it wants more: it has published all chunks before then.
	_, _ = u.out.Write(nil)
	close(u.resuming.done)
	u.resuming = nil
}

// time returns the time of the broadcast at which a packet is due. Times jump back when the publisher has paused, and
// when its clock does: then the track goes on where the broadcast is, with the shift of the track that did so first.
func (u *uplink) time(f *frames, at int64) int64 {
	second := int64(f.rate)
	if at+f.ticks(f.shift) < f.last-second {
		if at+f.ticks(u.shift) < f.last-second {
			u.shift = u.last - f.duration(at)
		}
		f.shift = u.shift
	}
	at += f.ticks(f.shift)
	f.last = max(f.last, at)
	u.last = max(u.last, f.duration(at))
	return at
}

// errNothing ends the input of a broadcast that has never begun.
var errNothing = errors.New("nothing was published")

// startWait is how long the broadcast waits for its last tracks. A track that is not there then is not in it.
const startWait = 2 * time.Second

// maxEarly and maxEarlyBytes limit the chunks that are kept until the broadcast begins. The oldest give way.
const (
	maxEarly      = 512
	maxEarlyBytes = 8 << 20
)

// write writes a chunk, after the init segment. An error means that nobody reads any more; then the queue is emptied
// for nothing.
func (u *uplink) write(chunk []byte) {
	if u.begun.Load() {
		_, _ = u.out.Write(chunk)
		return
	}
	if u.late == nil {
		u.late = time.After(startWait)
	}
	for len(u.chunks) >= maxEarly || !u.early.take(len(chunk)) {
		if len(u.chunks) == 0 {
			return
		}
		u.early.give(len(u.chunks[0]))
		u.chunks = slices.Delete(u.chunks, 0, 1)
	}
	u.chunks = append(u.chunks, chunk)
	if u.complete() {
		u.begin()
	}
}

// begin begins the broadcast with the tracks that are ready.
func (u *uplink) begin() {
	early := u.chunks
	u.late, u.chunks = nil, nil
	defer u.begun.Store(true)
	defer func() {
		for _, b := range early {
			u.early.give(len(b))
		}
	}()
	init, err := u.init()
	if err != nil {
		_ = u.out.CloseWithError(err)
		return
	}
	for _, b := range append([][]byte{init}, early...) {
		_, _ = u.out.Write(b)
	}
}

func (u *uplink) complete() bool {
	for _, f := range u.order {
		if !f.ready() {
			return false
		}
	}
	return true
}

// init returns the init segment of the tracks that are ready. The others are not in the broadcast. All follow the first
// video, as the groups of package pub do.
func (u *uplink) init() ([]byte, error) {
	var inits []*cmaf.Init
	var lead *frames
	for _, f := range u.order {
		if !f.ready() {
			continue
		}
		b, err := f.mux.Init()
		if err != nil {
			return nil, err
		}
		in, err := cmaf.ParseInit(b)
		if err != nil {
			return nil, err
		}
		inits = append(inits, in)
		if lead == nil && in.Tracks[0].Kind == cmaf.Video {
			lead = f
		}
	}
	for _, f := range u.order {
		f.lead = lead
	}
	in, err := cmaf.Join(inits...)
	if err != nil {
		return nil, err
	}
	return in.Data, nil
}

// publishMoQ publishes the uplink's output, until it ends.
func (s *Server) publishMoQ(in *io.PipeReader, l *lift, q *request, remote net.Addr) {
	err := pub.Run(s.ctx, pub.PublisherConfig{
		Namespace: q.namespace, Unpaced: true, Wanted: l.want,
		History: pub.History{Memory: l.share},
		Open:    func() (io.ReadCloser, error) { return in, nil },
		Client:  s.clientConfig(q, remote),
	}, new(pub.Stats))
	_ = in.Close() // the uplink writes for nobody
	l.share.end()
	if err != nil && s.ctx.Err() == nil && !errors.Is(err, errNothing) {
		s.log.Warn("an RTSP broadcast is not a MoQ broadcast any more", "namespace", q.namespace, "err", err)
	}
}

// clientConfig returns the configuration of a session with the relay, for an RTSP client.
func (s *Server) clientConfig(q *request, remote net.Addr) client.SessionConfig {
	return client.SessionConfig{
		URL: q.url(), Tokens: q.tokens(), ReconnectTimeout: -1,
		Logger: slog.New(slog.DiscardHandler), // it is this relay that would be named in each line
		Dial: func(ctx context.Context, _ string, _ transport.ClientConfig) (transport.Conn, error) {
			return s.cfg.Dial(ctx, remote)
		},
	}
}
