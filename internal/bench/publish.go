package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// publish offers mock video, and publishes it between the commands go and stop.
func (g *generator) publish(ctx context.Context) error {
	h := &publisher{track: g.name()}
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
	if err := g.out.Encode(LoadEvent{Ready: true, Peer: c.peer}); err != nil {
		return err
	}
	if _, err := g.await(ctx, commandGo); err != nil {
		return err
	}
	result, err := g.feed(ctx, h)
	if err != nil {
		return err
	}
	if err := g.out.Encode(LoadEvent{Published: result}); err != nil {
		return err
	}
	_, err = g.await(ctx, commandStop) // the subscribers have what they wait for
	return err
}

// feed publishes frames when they are due, until the command stop.
func (g *generator) feed(ctx context.Context, h *publisher) (*PublishResult, error) {
	var result PublishResult
	var late []float64
	timer := time.NewTimer(0)
	defer timer.Stop()
	begin := time.Now()
	for free := begin; ; free = time.Now() { // from free on, the transport takes more
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case command := <-g.commands:
			if command != commandStop {
				return nil, fmt.Errorf("command %q while publishing", command)
			}
			h.finish()
			result.Late = newDistribution(late)
			return &result, nil
		}
		n := result.Objects
		f := g.media.frame(n)
		due := begin.Add(f.due)
		if wait := time.Until(due); wait > 0 {
			timer.Reset(wait)
			continue
		}
		late = append(late, min(time.Since(due), time.Since(free)).Seconds()*1e3)
		payload := g.media.payload(n, time.Now())
		if h.send(ctx, f, payload) != nil {
			result.Failed++
		}
		result.Objects++
		result.Bytes += uint64(len(payload))
		timer.Reset(time.Until(begin.Add(g.media.frame(n + 1).due)))
	}
}

// publisher accepts subscriptions to its track.
type publisher struct {
	session.Unsupported
	track moqt.FullTrackName

	mu         sync.Mutex
	deliveries []*delivery
}

// delivery is a subscription and its streams.
type delivery struct {
	*session.Publication
	streams [layers]subgroup // of the current group
}

type subgroup struct {
	stream  transport.SendStream // nil: none yet
	encoder moqt.SubgroupEncoder
}

// HandleSubscribe implements [session.Handler].
func (h *publisher) HandleSubscribe(p *session.Publication) {
	if t := p.Track(); t.Name != h.track.Name || !t.Namespace.Equal(h.track.Namespace) {
		_ = p.Reject(&moqt.RequestError{Code: moqt.RequestDoesNotExist, Reason: "there is no such track"}) // else it is over
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.Accept(moqt.Parameters{}, nil) == nil {
		h.deliveries = append(h.deliveries, &delivery{Publication: p})
	}
}

var errNobody = errors.New("nobody has subscribed")

// send publishes a frame to all who subscribed.
func (h *publisher) send(ctx context.Context, f frame, payload []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.deliveries) == 0 {
		return errNobody
	}
	var errs []error
	for _, d := range h.deliveries {
		errs = append(errs, d.send(ctx, f, payload))
	}
	return errors.Join(errs...)
}

func (d *delivery) send(ctx context.Context, f frame, payload []byte) error {
	if f.at.Object == 0 {
		d.finish() // the group before
	}
	s := &d.streams[f.layer]
	if s.stream == nil {
		if err := d.open(ctx, f); err != nil {
			return err
		}
	}
	b := make([]byte, 0, len(payload)+2*moqt.MaxVarintLen)
	b, err := s.encoder.AppendObject(b, moqt.ObjectHeader{ObjectID: f.at.Object, PayloadLength: uint64(len(payload))})
	if err != nil {
		return err
	}
	_, err = s.stream.Write(append(b, payload...))
	return err
}

// open opens the stream for the subgroup of a frame, the first one of it. The ids of subgroups are those of layers.
func (d *delivery) open(ctx context.Context, f frame) error {
	header := moqt.SubgroupHeader{GroupID: f.at.Group, Priority: priority(f.layer), FirstObject: true}
	if f.layer > 0 {
		header.SubgroupIDMode, header.SubgroupID = moqt.SubgroupIDPresent, uint64(f.layer)
	}
	stream, err := d.OpenSubgroup(ctx, header)
	if err != nil {
		return err
	}
	d.streams[f.layer] = subgroup{stream: stream, encoder: moqt.NewSubgroupEncoder(header)}
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
