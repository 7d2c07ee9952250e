package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"sluice/internal/bench/result"
	"sluice/internal/bench/video"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// publish offers the video, and publishes it between the commands Go and Stop.
func (g *generator) publish(ctx context.Context) error {
	h := &publisher{track: g.name()}
	if g.Audio {
		h.audio = &publisher{track: g.audioName()}
	}
	c, err := g.connect(ctx, h)
	if err != nil {
		return err
	}
	defer c.close()
	offer, err := c.PublishNamespace(ctx, moqt.PublishNamespace{Namespace: h.track.Namespace})
	if err == nil {
		err = offer.Wait(ctx)
	}
	if err != nil {
		return fmt.Errorf("publish the namespace: %w", err)
	}
	if err := g.out.Encode(Event{Ready: true, Peer: c.peer}); err != nil {
		return err
	}
	if _, err := g.await(ctx, Go); err != nil {
		return err
	}
	stopAudio := h.audio.playAudio(ctx)
	done, err := g.feed(ctx, h)
	stopAudio()
	if err != nil {
		return err
	}
	if err := g.out.Encode(Event{Published: done}); err != nil {
		return err
	}
	_, err = g.await(ctx, Stop) // the subscribers have reported
	return err
}

// feed publishes frames when they are due, until the command Stop.
func (g *generator) feed(ctx context.Context, h *publisher) (*Published, error) {
	var done Published
	var late []float64
	timer := time.NewTimer(0)
	defer timer.Stop()
	begin := time.Now()
	for free := begin; ; free = time.Now() { // from free on, the transport takes a frame
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case command := <-g.commands:
			if command != Stop {
				return nil, fmt.Errorf("command: %q: must be %q", command, Stop)
			}
			h.finish()
			done.Late = result.NewDistribution(late)
			return &done, nil
		}
		n := done.Objects
		f := g.source.Frame(n)
		due := begin.Add(f.Due)
		if wait := time.Until(due); wait > 0 {
			timer.Reset(wait)
			continue
		}
		late = append(late, min(time.Since(due), time.Since(free)).Seconds()*1e3)
		payload := g.source.Payload(n, time.Now())
		if h.send(ctx, f, payload) != nil {
			done.Failed++
		}
		done.Objects++
		done.Bytes += uint64(len(payload))
		timer.Reset(time.Until(begin.Add(g.source.Frame(n + 1).Due)))
	}
}

// playAudio publishes mock audio until stop is called. Without a track for it, it does nothing.
func (h *publisher) playAudio(ctx context.Context) (stop func()) {
	if h == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		begin := time.Now()
		for n := uint64(0); ; n++ {
			f := video.Audio.Frame(n)
			select {
			case <-time.After(time.Until(begin.Add(f.Due))):
			case <-ctx.Done():
				h.finish()
				return
			}
			_ = h.send(ctx, f, video.Audio.Payload(n, time.Now())) // what is missing shows at the subscribers
		}
	}()
	return func() { cancel(); <-ended }
}

// publisher accepts subscriptions to its track.
type publisher struct {
	session.Unsupported
	track moqt.FullTrackName
	audio *publisher // which has the subscriptions to the audio; nil: there is none

	mu         sync.Mutex // guards all below, with the streams of deliveries
	deliveries []*delivery
}

// delivery is a subscription and its streams.
type delivery struct {
	*session.Publication
	streams [video.Layers]subgroup // of the current group
}

type subgroup struct {
	stream  transport.SendStream // nil: not open
	encoder moqt.SubgroupEncoder
}

// HandleSubscribe implements [session.Handler].
func (h *publisher) HandleSubscribe(p *session.Publication) {
	if h.audio != nil && p.Track().Name == h.audio.track.Name {
		h.audio.HandleSubscribe(p)
		return
	}
	if t := p.Track(); t.Name != h.track.Name || !t.Namespace.Equal(h.track.Namespace) {
		// It fails only if the subscription has ended.
		_ = p.Reject(&moqt.RequestError{Code: moqt.RequestDoesNotExist, Reason: "there is no such track"})
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.Accept(moqt.Parameters{}, nil) == nil {
		h.deliveries = append(h.deliveries, &delivery{Publication: p})
	}
}

var errNoSubscription = errors.New("there is no subscription")

// send publishes a frame on all subscriptions.
func (h *publisher) send(ctx context.Context, f video.Frame, payload []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	// Some relays subscribe once to learn of the track, and again for its objects.
	h.deliveries = slices.DeleteFunc(h.deliveries, func(d *delivery) bool { return d.Context().Err() != nil })
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
