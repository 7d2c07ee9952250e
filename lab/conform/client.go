package conform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// client is a client that keeps all rules, and closes its session if the relay breaks one that package session knows.
// It answers requests from the objects that it has published.
type client struct {
	session.Unsupported
	*session.Session
	t          *trial
	properties moqt.Properties           // of its tracks
	asked      chan *session.Publication // SUBSCRIBE of the relay, accepted
	offered    chan *session.Subscription

	mu   sync.Mutex
	past []object // that it has published, in ascending order
}

// object is an object of a track, as a client sends or receives it.
type object struct {
	moqt.Location
	Subgroup   uint64
	Priority   uint8
	Status     moqt.ObjectStatus
	Datagram   bool
	Properties string
	Payload    string
}

func (o object) String() string { return fmt.Sprintf("%d.%d", o.Group, o.Object) }

// newClient returns a client with a session.
func newClient(t *trial) *client {
	c := &client{t: t, asked: make(chan *session.Publication, 10), offered: make(chan *session.Subscription, 10)}
	cfg := session.Config{
		Handler: c, Strict: true, Implementation: implementation, Tokens: t.suite.Tokens,
		Logger: t.suite.Logger,
	}
	cfg.Limits.MaxFilterRanges = 8
	if t.suite.kind == transport.RawQUIC {
		cfg.Authority, cfg.Path = t.suite.URL.Authority, t.suite.URL.Path
	}
	s, err := session.New(t.dial(), cfg)
	t.must(err, "a session")
	c.Session = s
	t.running.Go(func() { _ = s.Run(context.Background()) })
	_, err = s.Peer(t.ctx)
	t.must(err, "SETUP")
	return c
}

// HandleSubscribe implements [session.Handler].
func (c *client) HandleSubscribe(p *session.Publication) {
	if p.Accept(moqt.Parameters{LargestObject: c.largest()}, c.properties) == nil {
		c.asked <- p
		c.answerUpdates(p)
	}
}

// HandlePublish implements [session.Handler].
func (c *client) HandlePublish(s *session.Subscription) { c.offered <- s }

// HandleTrackStatus implements [session.Handler].
func (c *client) HandleTrackStatus(s *session.IncomingTrackStatus) {
	_ = s.OK(moqt.Parameters{LargestObject: c.largest()}, c.properties)
}

// HandleFetch implements [session.Handler].
func (c *client) HandleFetch(f *session.IncomingFetch) {
	largest := c.largest()
	if largest == nil || largest.Less(f.Range.Start) {
		_ = f.Reject(&moqt.RequestError{Code: moqt.RequestInvalidRange})
		return
	}
	order := f.Message.Parameters.Order(moqt.Ascending)
	end := moqt.Location{Group: largest.Group, Object: largest.Object + 1}
	if f.Range.End.Less(*largest) {
		end = f.Range.End.Next()
	}
	stream, err := f.OpenStream(f.Context())
	if err != nil || f.OK(moqt.FetchOK{End: end, Properties: c.properties}) != nil {
		return
	}
	_, _ = stream.Write(c.response(f.RangeFrom(*largest), order))
	_ = stream.Close()
	_ = f.Done()
}

// response returns the objects of a range.
func (c *client) response(r moqt.Range, order moqt.GroupOrder) (b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	encoder := moqt.NewFetchEncoder(c.Version(), order)
	objects := slices.Clone(c.past)
	if order == moqt.Descending {
		slices.SortStableFunc(objects, func(a, b object) int { return cmp.Compare(b.Group, a.Group) })
	}
	for _, o := range objects {
		if r.Contains(o.Location) {
			var err error
			b, err = encoder.AppendObject(b, &moqt.FetchObject{
				Location: o.Location, SubgroupID: o.Subgroup, Priority: o.Priority, Datagram: o.Datagram,
				Properties: moqt.Properties(o.Properties), PayloadLength: uint64(len(o.Payload)),
			})
			if err != nil {
				panic(err)
			}
			b = append(b, o.Payload...)
		}
	}
	return b
}

func (c *client) largest() *moqt.Location {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.past) == 0 {
		return nil
	}
	l := c.past[len(c.past)-1].Location
	return &l
}

// answerUpdates accepts all updates of a subscription until it ends.
func (c *client) answerUpdates(p *session.Publication) {
	for {
		select {
		case u := <-p.Updates():
			_ = u.OK(moqt.Parameters{LargestObject: c.largest()})
		case <-p.Context().Done():
			return
		}
	}
}

// announce publishes a namespace.
func (c *client) announce(ns moqt.Namespace) *session.PublishedNamespace {
	p, err := c.PublishNamespace(c.t.ctx, moqt.PublishNamespace{Namespace: ns})
	c.t.must(err, "PUBLISH_NAMESPACE can be sent")
	c.t.must(p.Wait(c.t.ctx), "REQUEST_OK to PUBLISH_NAMESPACE")
	return p
}

// publish publishes a track.
func (c *client) publish(track moqt.FullTrackName) *session.Publication {
	p, err := c.Publish(c.t.ctx, moqt.Publish{
		Track: track, Properties: c.properties, Parameters: moqt.Parameters{LargestObject: c.largest()},
	})
	c.t.must(err, "PUBLISH can be sent")
	c.t.must(p.Wait(c.t.ctx), "REQUEST_OK to PUBLISH")
	c.t.running.Go(func() { c.answerUpdates(p) })
	return p
}

// subscribe subscribes to a track, and waits for SUBSCRIBE_OK.
func (c *client) subscribe(track moqt.FullTrackName, p moqt.Parameters) (*sink, *moqt.SubscribeOK) {
	k := c.ask(track, p)
	ok, err := k.Wait(c.t.ctx)
	c.t.must(err, "SUBSCRIBE_OK")
	return k, ok
}

// ask sends a SUBSCRIBE.
func (c *client) ask(track moqt.FullTrackName, p moqt.Parameters) *sink {
	k := newSink(c)
	s, err := c.Subscribe(c.t.ctx, moqt.Subscribe{Track: track, Parameters: p}, k)
	c.t.must(err, "SUBSCRIBE can be sent")
	k.Subscription = s
	return k
}

// send sends objects of one subgroup, on a stream that stays open.
func (c *client) send(p *session.Publication, h moqt.SubgroupHeader, objects ...object) transport.SendStream {
	h.SubgroupIDMode = moqt.SubgroupIDPresent
	stream, err := p.OpenSubgroup(c.t.ctx, h)
	c.t.must(err, "a stream for a subgroup")
	encoder := moqt.NewSubgroupEncoder(c.Version().DataLayout(), h)
	var b []byte
	for _, o := range objects {
		b, err = encoder.AppendObject(b, moqt.ObjectHeader{
			ObjectID: o.Object, Status: o.Status, Properties: moqt.Properties(o.Properties),
			PayloadLength: uint64(len(o.Payload)),
		})
		if err != nil {
			panic(err)
		}
		b = append(b, o.Payload...)
		o.Group, o.Subgroup, o.Priority = h.GroupID, h.SubgroupID, h.Priority
		c.mu.Lock()
		if o.Status == moqt.StatusNormal {
			c.past = append(c.past, o)
		}
		c.mu.Unlock()
	}
	_, _ = stream.Write(b)
	return stream
}

// group sends a group of objects from first on, and ends its stream.
func (c *client) group(p *session.Publication, group uint64, objects ...uint64) {
	all := make([]object, len(objects))
	for i, id := range objects {
		all[i] = object{Location: moqt.Location{Group: group, Object: id}, Payload: fmt.Sprintf("%d.%d", group, id)}
	}
	_ = c.send(p, moqt.SubgroupHeader{GroupID: group, Priority: 100, FirstObject: true}, all...).Close()
}

// fetch returns the objects that the relay has in its response.
func (c *client) fetch(m moqt.Fetch) []object {
	f, err := c.Fetch(c.t.ctx, m)
	c.t.must(err, "FETCH can be sent")
	stream, err := f.Stream(c.t.ctx)
	c.t.must(err, "a stream with the response to FETCH")
	b, err := io.ReadAll(stream)
	c.t.must(err, "the response to FETCH ends with FIN")
	_, err = f.Wait(c.t.ctx)
	c.t.must(err, "FETCH_OK")
	objects, err := parseFetch(c.Version(), m.Parameters.Order(moqt.Ascending), b)
	c.t.must(err, "a response to FETCH that can be read")
	return objects
}

// parseFetch returns the objects of a response.
func parseFetch(v moqt.Version, order moqt.GroupOrder, b []byte) (objects []object, err error) {
	p := moqt.NewFetchParser(v, order, 0)
	for rest := b; ; {
		o, n, err := p.Next(rest)
		if rest = rest[n:]; errors.Is(err, moqt.ErrIncomplete) {
			return objects, p.Finish()
		}
		if err != nil {
			return nil, err
		}
		if o.Kind == moqt.FetchKindObject && o.End <= int64(len(b)) {
			objects = append(objects, object{
				Location: o.Location, Subgroup: o.SubgroupID, Priority: o.Priority, Datagram: o.Datagram,
				Properties: string(o.Properties), Payload: string(b[o.PayloadStart:o.End]),
			})
		}
	}
}

// refusal wants the error of a request that was refused with one of the codes.
func refusal(t *trial, err error, codes ...moqt.RequestErrorCode) {
	r, ok := errors.AsType[*moqt.RequestError](err)
	if !ok || !slices.Contains(codes, r.Code) {
		t.fail(fmt.Sprintf("REQUEST_ERROR with %v", codes), "%v", err)
	}
}
