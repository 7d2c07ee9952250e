package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"sluice/lab/bench/result"
	"sluice/lab/bench/video"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// publish offers the video, and publishes it between the commands Go and Stop.
func (g *generator) publish(ctx context.Context) error {
	h := g.newPublisher()
	c, err := g.offer(ctx, h)
	if err != nil {
		return err
	}
	defer c.close()
	done, err := g.perform(ctx, h)
	if err != nil {
		return err
	}
	return g.published(ctx, done)
}

// offer opens a session, and announces the video in it.
func (g *generator) offer(ctx context.Context, h *publisher) (*connection, error) {
	c, err := g.connect(ctx, h)
	if err != nil {
		return nil, err
	}
	offer, err := c.PublishNamespace(ctx, moqt.PublishNamespace{Namespace: h.track.Namespace})
	if err == nil {
		err = offer.Wait(ctx)
	}
	if err == nil {
		err = g.out.Encode(Event{Ready: true, Peer: c.peer})
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("publish the namespace: %w", err)
	}
	return c, nil
}

// perform publishes the video between the commands Go and Stop.
func (g *generator) perform(ctx context.Context, h *publisher) (*Published, error) {
	if _, err := g.await(ctx, Go); err != nil {
		return nil, err
	}
	begin := time.Now()
	stop := h.playBeside(ctx, begin)
	done, err := g.feed(ctx, begin, func(f video.Frame, payload []byte) error { return h.send(ctx, f, payload) })
	stop()
	h.finish()
	return done, err
}

// published reports the published objects, and waits until the subscribers have reported.
func (g *generator) published(ctx context.Context, done *Published) error {
	if err := g.out.Encode(Event{Published: done}); err != nil {
		return err
	}
	_, err := g.await(ctx, Stop)
	return err
}

// newPublisher returns the publisher of the video, and beside it publishers of other renditions and the audio.
func (g *generator) newPublisher() *publisher {
	h := &publisher{track: g.name(), source: g.Mock}
	if g.Ladder {
		all := g.Mock.Ladder()
		best := len(all) - 1
		for rank, m := range all[:best] {
			h.beside = append(h.beside, &publisher{track: g.renditionName(rank, best), source: m})
		}
	}
	if g.Audio {
		h.beside = append(h.beside, &publisher{track: g.audioName(), source: video.Audio})
	}
	return h
}

// feed calls send with frames when they are due since begin, until the command Stop.
func (g *generator) feed(
	ctx context.Context, begin time.Time, send func(video.Frame, []byte) error,
) (*Published, error) {
	var done Published
	var late []float64
	timer := time.NewTimer(0)
	defer timer.Stop()
	for free := begin; ; free = time.Now() { // from free on, the transport takes a frame
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case command := <-g.commands:
			if command != Stop {
				return nil, fmt.Errorf("command: %q: must be %q", command, Stop)
			}
			done.Late = result.NewDistribution(late)
			return &done, nil
		}
		n := done.Objects
		f := g.Mock.Frame(n)
		due := begin.Add(f.Due)
		if wait := time.Until(due); wait > 0 {
			timer.Reset(wait)
			continue
		}
		late = append(late, min(time.Since(due), time.Since(free)).Seconds()*1e3)
		payload := g.Mock.Payload(n, time.Now())
		if send(f, payload) != nil {
			done.Failed++
		}
		done.Objects++
		done.Bytes += uint64(len(payload))
		timer.Reset(time.Until(begin.Add(g.Mock.Frame(n + 1).Due)))
	}
}

// playBeside publishes the tracks beside the video until stop is called.
func (h *publisher) playBeside(ctx context.Context, begin time.Time) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for _, b := range h.beside {
		all.Go(func() { b.play(ctx, begin) })
	}
	return func() { cancel(); all.Wait() }
}

// play publishes frames when they are due.
func (h *publisher) play(ctx context.Context, begin time.Time) {
	for n := uint64(0); ; n++ {
		f := h.source.Frame(n)
		select {
		case <-time.After(time.Until(begin.Add(f.Due))):
		case <-ctx.Done():
			h.finish()
			return
		}
		_ = h.send(ctx, f, h.source.Payload(n, time.Now())) // missing frames show at the subscribers
	}
}

// publisher accepts subscriptions to its track.
type publisher struct {
	session.Unsupported
	track  moqt.FullTrackName
	source video.Mock
	beside []*publisher // of other tracks, which have the subscriptions to these

	mu         sync.Mutex // guards all below, with deliveries
	deliveries []*delivery
	largest    *moqt.Location // nil: nothing was published
}

// delivery is a subscription and its streams.
type delivery struct {
	*session.Publication
	sends   bool                   // the current group: the subscriber wanted objects when it began
	streams [video.Layers]subgroup // of the current group
}

type subgroup struct {
	stream  transport.SendStream // nil: not open
	encoder moqt.SubgroupEncoder
}

// HandleSubscribe implements [session.Handler].
func (h *publisher) HandleSubscribe(p *session.Publication) {
	for _, b := range h.beside {
		if p.Track().Name == b.track.Name {
			b.HandleSubscribe(p)
			return
		}
	}
	if t := p.Track(); t.Name != h.track.Name || !t.Namespace.Equal(h.track.Namespace) {
		// It fails only if the subscription has ended.
		_ = p.Reject(&moqt.RequestError{Code: moqt.RequestDoesNotExist, Reason: "there is no such track"})
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.Accept(moqt.Parameters{LargestObject: h.largest}, nil) == nil {
		d := &delivery{Publication: p}
		h.deliveries = append(h.deliveries, d)
		go h.takeUpdates(d)
	}
}

// takeUpdates answers updates of a subscription. A rendition that a subscriber wants again begins with the next group.
func (h *publisher) takeUpdates(d *delivery) {
	for {
		select {
		case u := <-d.Updates():
			h.mu.Lock()
			if u.OK(moqt.Parameters{LargestObject: h.largest}) == nil && !d.Forward() {
				d.stop()
			}
			h.mu.Unlock()
		case <-d.Context().Done():
			return
		}
	}
}

var errNoSubscription = errors.New("there is no subscription")

// send publishes a frame on all subscriptions.
func (h *publisher) send(ctx context.Context, f video.Frame, payload []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	// Some relays subscribe once to learn of the track, and again for its objects.
	h.deliveries = slices.DeleteFunc(h.deliveries, func(d *delivery) bool { return d.Context().Err() != nil })
	h.largest = &moqt.Location{Group: f.Group, Object: f.Object}
	if len(h.deliveries) == 0 {
		return errNoSubscription
	}
	var errs []error
	for _, d := range h.deliveries {
		errs = append(errs, d.send(ctx, f, payload))
	}
	return errors.Join(errs...)
}

func (d *delivery) send(ctx context.Context, f video.Frame, payload []byte) error {
	if f.Object == 0 {
		d.finish() // the group before
		d.sends = d.Forward()
	}
	if !d.sends {
		return nil
	}
	s := &d.streams[f.Layer]
	if s.stream == nil {
		if err := d.open(ctx, f); err != nil {
			return err
		}
	}
	b := make([]byte, 0, len(payload)+2*moqt.MaxVarintLen)
	b, err := s.encoder.AppendObject(b, moqt.ObjectHeader{ObjectID: f.Object, PayloadLength: uint64(len(payload))})
	if err != nil {
		return err
	}
	_, err = s.stream.Write(append(b, payload...))
	return err
}

// open opens the stream of a subgroup with its first frame. A subgroup has the id of its layer.
func (d *delivery) open(ctx context.Context, f video.Frame) error {
	header := moqt.SubgroupHeader{GroupID: f.Group, Priority: f.Priority, FirstObject: true}
	if f.Layer > 0 {
		header.SubgroupIDMode, header.SubgroupID = moqt.SubgroupIDPresent, uint64(f.Layer)
	}
	stream, err := d.OpenSubgroup(ctx, header)
	if err != nil {
		return err
	}
	d.streams[f.Layer] = subgroup{stream, moqt.NewSubgroupEncoder(d.Session().Version().DataLayout(), header)}
	return nil
}

// stop resets the streams of the current group.
func (d *delivery) stop() {
	d.sends = false
	for i := range d.streams {
		if s := d.streams[i].stream; s != nil {
			s.CancelWrite(uint64(moqt.ResetCancelled))
			d.streams[i].stream = nil
		}
	}
}

func (d *delivery) finish() {
	for i := range d.streams {
		if s := d.streams[i].stream; s != nil {
			_ = s.Close() // fails only if it was cancelled
			d.streams[i].stream = nil
		}
	}
}

func (h *publisher) finish() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.deliveries {
		d.finish()
	}
}
