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
	var peer session.Peer
	if err == nil {
		peer, err = c.Peer(ctx)
	}
	if err == nil {
		err = g.out.Encode(Event{Ready: true, Peer: peer.Implementation})
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
	begin, beside := time.Now(), sync.WaitGroup{}
	besideCtx, stop := context.WithCancel(ctx)
	for _, b := range h.beside { // what they lack shows at the subscribers
		beside.Go(func() { _, _ = b.play(besideCtx, begin, nil) })
	}
	done, err := h.play(ctx, begin, g.commands)
	stop()
	beside.Wait()
	return done, err
}

// play publishes frames when they are due since begin, until the command Stop.
func (h *publisher) play(ctx context.Context, begin time.Time, commands <-chan string) (*Published, error) {
	defer h.finish()
	return feed(ctx, begin, h.source, commands, func(f video.Frame, payload []byte) error {
		return h.send(ctx, f, payload)
	})
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
func feed(
	ctx context.Context, begin time.Time, source video.Mock, commands <-chan string,
	send func(video.Frame, []byte) error,
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
		case command := <-commands:
			if command != Stop {
				return nil, fmt.Errorf("command: %q: must be %q", command, Stop)
			}
			done.Late = result.NewDistribution(late)
			return &done, nil
		}
		n := done.Objects
		f := source.Frame(n)
		due := begin.Add(f.Due)
		if wait := time.Until(due); wait > 0 {
			timer.Reset(wait)
			continue
		}
		late = append(late, min(time.Since(due), time.Since(free)).Seconds()*1e3)
		payload := source.Payload(n, time.Now())
		if send(f, payload) != nil {
			done.Failed++
		}
		done.Objects++
		done.Bytes += uint64(len(payload))
		timer.Reset(time.Until(begin.Add(source.Frame(n + 1).Due)))
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
