package load

import (
	"context"
	"math"
	"time"

	"sluice/internal/bench/playback"
	"sluice/internal/bench/video"
	"sluice/internal/rendition"
	"sluice/moqt"
	"sluice/moqt/session"
)

// ladder plays several renditions, as sluice sub does: it takes each group of one of them. The receiver's mutex guards
// what changes.
type ladder struct {
	*generator
	conn     *connection
	receiver *receiver
	of       []video.Mock // by bitrate

	chooser *rendition.Chooser
	meter   rendition.Meter
	origin  time.Time // when the first frame was due
	newest  uint64    // the newest group with an object that has come
	next    uint64    // frame to be shown
}

// part is a subscription to a rendition.
type part struct {
	*ladder
	rank  int
	known chan struct{} // closed when it is known which groups are taken; nil: it is

	subscription *session.Subscription
	first, end   uint64 // the groups that are taken: from first on, and up to end, unless that is 0
}

// climb subscribes to the video: to all renditions, if the relay is to choose and can; or else to the best one, and
// later to others.
func (g *generator) climb(ctx context.Context, c *connection, r *receiver) error {
	l := g.newLadder(c, r)
	peer, err := c.Peer(ctx)
	if err != nil {
		return err
	}
	if g.Rule == rendition.ByRelay && peer.Renditions && c.Version() >= moqt.Draft18 {
		r.got.Rule = rendition.ByRelay
		return l.offer(ctx)
	}
	r.got.Rule = rendition.ByClient
	p, err := l.begin(ctx)
	if err == nil {
		c.wait.Go(func() { l.play(c.Context(), p) })
	}
	return err
}

func (g *generator) newLadder(c *connection, r *receiver) *ladder {
	mock, _ := g.source.(video.Mock) // openSource refuses to make a ladder of a clip
	return &ladder{generator: g, conn: c, receiver: r, of: mock.Ladder()}
}

func (l *ladder) best() int { return len(l.of) - 1 }

// begin subscribes to the best rendition.
func (l *ladder) begin(ctx context.Context) (*part, error) {
	var renditions []rendition.Rendition
	for _, m := range l.of {
		renditions = append(renditions, rendition.Rendition{Bitrate: int(m.Rate)})
	}
	l.receiver.ladder, l.chooser = l, rendition.NewChooser(&l.meter, renditions, l.best())
	p := &part{ladder: l, rank: l.best()}
	_, err := p.subscribe(ctx, moqt.FilterLargestObject, moqt.Parameters{})
	return p, err
}

// offer subscribes to all renditions, among which the relay chooses. It begins with the best one.
func (l *ladder) offer(ctx context.Context) error {
	for rank := l.best(); rank >= 0; rank-- {
		p := moqt.Parameters{Rendition: &moqt.Rendition{Bitrate: uint64(l.of[rank].Rate)}}
		from := moqt.FilterLargestObject
		if rank != l.best() {
			p.Forward, from = new(false), moqt.FilterRelativeStart
		}
		if _, err := (&part{ladder: l, rank: rank}).subscribe(ctx, from, p); err != nil {
			return err
		}
	}
	return nil
}

// subscribe subscribes to the rendition. It returns the largest object that has been published.
func (p *part) subscribe(
	ctx context.Context, from moqt.FilterType, params moqt.Parameters,
) (largest *moqt.Location, err error) {
	p.subscription, largest, err = p.conn.subscribe(ctx, p.renditionName(p.rank, p.best()), from, params, p)
	return largest, err
}

// HandleDatagram implements [session.Receiver].
func (p *part) HandleDatagram(*moqt.ObjectDatagram) {}

// HandleSubgroup implements [session.Receiver].
func (p *part) HandleSubgroup(g *session.Subgroup) {
	if p.known != nil {
		<-p.known
	}
	if !p.takes(g.Header.GroupID) {
		g.CancelRead(uint64(moqt.ResetCancelled))
		return
	}
	p.receiver.read(g, p.rank)
}

func (p *part) takes(group uint64) bool {
	p.receiver.mu.Lock()
	defer p.receiver.mu.Unlock()
	return group >= p.first && (p.end == 0 || group < p.end)
}

// arrivedLocked measures an object, and how long it took to arrive.
func (l *ladder) arrivedLocked(a video.Arrival, took time.Duration) {
	n := a.Group*uint64(l.of[0].Group) + a.Object
	due := l.of[0].Frame(n).Due
	now, origin := time.Unix(0, a.Arrived), time.Unix(0, a.Published).Add(-due)
	l.meter.Arrived(now, due, a.Bytes, took)
	l.chooser.Began(now, a.Rendition)
	switch {
	case l.origin.IsZero():
		l.origin, l.next = origin, n
	case origin.Before(l.origin):
		l.origin = origin
	}
	l.newest = max(l.newest, a.Group)
}

// play changes to other renditions until the session ends.
func (l *ladder) play(ctx context.Context, playing *part) {
	tick := time.NewTicker(rendition.Interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if to := l.choose(time.Now()); to != playing.rank {
			playing = l.change(ctx, playing, to)
		}
	}
}

// choose returns the rendition to play.
func (l *ladder) choose(now time.Time) int {
	l.receiver.mu.Lock()
	defer l.receiver.mu.Unlock()
	l.skip(now)
	return l.chooser.Choose(now, l.conn.Conn().RTT())
}

// skip leaves out frames that have not come in time.
func (l *ladder) skip(now time.Time) {
	for ; !l.origin.IsZero() && l.shown(l.next).Before(now); l.next++ {
		if f := l.of[0].Frame(l.next); !l.receiver.seen[f.Location] {
			l.meter.Skipped(now, 1)
		}
	}
}

// shown returns when a player shows a frame.
func (l *ladder) shown(n uint64) time.Time {
	return l.origin.Add(l.of[0].Frame(n).Due + playback.Playout)
}

// Of a change: how long the relay may take to answer, and how often it is looked whether the rendition before has come.
const (
	changeTimeout = 3 * time.Second
	leaveInterval = 100 * time.Millisecond
)

// change subscribes to another rendition from its next group on. If that fails, the present one goes on.
func (l *ladder) change(ctx context.Context, playing *part, to int) *part {
	answer, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	p := &part{ladder: l, rank: to, known: make(chan struct{}), first: math.MaxUint64}
	defer close(p.known)
	largest, err := p.subscribe(answer, moqt.FilterRelativeStart, moqt.Parameters{})
	l.receiver.mu.Lock()
	defer l.receiver.mu.Unlock()
	if err != nil {
		l.chooser.Refused(time.Now(), false)
		return playing
	}
	p.first = l.newest + 1
	if largest != nil {
		p.first = max(p.first, largest.Group+1)
	}
	playing.end = p.first
	l.conn.wait.Go(func() { playing.leave(ctx) })
	return p
}

// leave ends the subscription when all that is taken of it has come, or is too late.
func (p *part) leave(ctx context.Context) {
	defer p.subscription.Cancel(moqt.ResetCancelled)
	tick := time.NewTicker(leaveInterval)
	defer tick.Stop()
	for !p.over(time.Now()) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// over reports whether all that is taken has come, or is too late.
func (p *part) over(now time.Time) bool {
	p.receiver.mu.Lock()
	defer p.receiver.mu.Unlock()
	frames := uint64(p.of[0].Group)
	if p.shown(p.end*frames - 1).Before(now) {
		return true
	}
	for o := range frames {
		if !p.receiver.seen[moqt.Location{Group: p.end - 1, Object: o}] {
			return false
		}
	}
	return true
}
