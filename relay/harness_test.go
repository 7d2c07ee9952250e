package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/media"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/hub"
	"sluice/track"
	"sluice/transport"
	"sluice/transport/transporttest"
)

// plainSender sends subscription data on ordinary streams, as a media sender does, only slower.
type plainSender struct {
	conn transport.Conn
	mu   sync.Mutex
	subs []*plainSubscription

	state media.SubscriptionState // of each subscription
	ahead atomic.Bool             // streams have sent more of a log that is cut than it has
	whole atomic.Bool             // streams have sent the ends of subgroups that their logs do not have
	extra atomic.Int64            // bytes that streams have sent, when they are reset, beyond the ends of their logs
	late  time.Duration           // how much later than a stream's end its Result comes
}

type plainSubscription struct {
	sender  *plainSender
	cfg     media.SubscriptionConfig
	mu      sync.Mutex
	streams map[*plainStream]struct{}
	opened  []media.StreamConfig
	closed  bool

	finishing atomic.Pointer[uint64] // the code of Finish

	patience time.Duration
}

type plainStream struct {
	sub    *plainSubscription
	cfg    media.StreamConfig
	reader *track.Reader
	grown  chan struct{}
	reset  chan uint64
}

func (p *plainSender) newSubscription(cfg media.SubscriptionConfig) hub.MediaSubscription {
	s := &plainSubscription{sender: p, cfg: cfg, streams: make(map[*plainStream]struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.subs = append(p.subs, s)
	return s
}

func (s *plainSubscription) OpenStream(cfg media.StreamConfig) (hub.MediaStream, error) {
	st := &plainStream{sub: s, cfg: cfg, grown: make(chan struct{}, 1), reset: make(chan uint64, 1)}
	r, err := cfg.Log.NewReader(cfg.Start, st)
	if err != nil {
		return nil, err
	}
	st.reader = r
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		r.Close()
		return nil, media.ErrClosed
	}
	s.streams[st] = struct{}{}
	s.opened = append(s.opened, cfg)
	go st.run()
	return st, nil
}

func (s *plainSubscription) SendDatagram(d media.Datagram) error {
	return s.sender.conn.SendDatagram(slices.Concat(d.Header, d.Payload))
}

func (s *plainSubscription) SetOrder(priority uint8, descending bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Priority, s.cfg.Descending = priority, descending
}

func (s *plainSubscription) State() media.SubscriptionState {
	s.sender.mu.Lock()
	defer s.sender.mu.Unlock()
	s.sender.state.Sent += uint64(s.sender.state.Window / 10)
	return s.sender.state
}

func (s *plainSubscription) SetTimeouts(t media.Timeouts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Timeouts = t
}

// timeouts returns those that count for the stream that was opened i-th.
func (s *plainSubscription) timeouts(i int) media.Timeouts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened[i].Timeouts.Shorter(s.cfg.Timeouts)
}

func (s *plainSubscription) SetPatience(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.patience = d
}

func (s *plainSubscription) Finish(code uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finishing.Store(&code)
	for st := range s.streams {
		st.Wake()
	}
}

func (s *plainSubscription) Close(code uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for st := range s.streams {
		st.Reset(code)
	}
}

func (st *plainStream) Reset(code uint64) (sent int64) {
	select {
	case st.reset <- code:
	default:
	}
	return st.cfg.Log.End() + st.sub.sender.extra.Load()
}

func (st *plainStream) Wake() {
	select {
	case st.grown <- struct{}{}:
	default:
	}
}

func (st *plainStream) run() {
	res := st.send()
	st.reader.Close()
	st.sub.mu.Lock()
	delete(st.sub.streams, st)
	st.sub.mu.Unlock()
	time.Sleep(st.sub.sender.late)
	st.cfg.OnDone(res)
}

func (st *plainStream) send() media.Result {
	res := media.Result{ID: -1}
	str, err := st.sub.sender.conn.OpenUniStream()
	if err != nil {
		res.Outcome = media.ConnectionClosed
		return res
	}
	res.ID = str.ID()
	b, atOnce := st.cfg.Prefix, true
	for off := st.cfg.Start; ; {
		if _, err := str.Write(b); err != nil {
			res.Outcome = media.Stopped
			str.CancelWrite(0)
			return res
		}
		select {
		case code := <-st.reset:
			str.CancelWrite(code)
			res.Outcome = media.Canceled
			return res
		default:
		}
		state, code := st.cfg.Log.State()
		end := st.cfg.Log.End()
		if state == track.Reset || state == track.Cut {
			end = st.cfg.Log.Boundary(end)
		}
		if b = st.reader.View(off, int(max(0, min(end-off, 1<<16)))); len(b) > 0 {
			off += int64(len(b))
			continue
		}
		finish := st.sub.finishing.Load()
		whole := st.sub.sender.whole.Load() && off > st.cfg.Start && st.cfg.Log.Boundary(off) == off // objects
		at, severed := st.cfg.Log.First.Severed()
		severed = severed && st.sub.sender.ahead.Swap(false)
		if atOnce && state == track.Reset {
			time.Sleep(time.Millisecond) // what was just sent arrives before the reset
		}
		switch {
		case severed:
			str.CancelWrite(0)
			res.Outcome, res.Severed = media.Severed, at
			return res
		case state == track.Cut && finish != nil:
			str.CancelWrite(*finish)
			res.Outcome = media.Canceled
			return res
		case state == track.Finished || whole:
			str.Close()
			return res
		case state == track.Reset:
			str.CancelWrite(code)
			res.Outcome = media.UpstreamReset
			return res
		}
		atOnce = false
		select {
		case <-st.grown:
		case code := <-st.reset:
			str.CancelWrite(code)
			res.Outcome = media.Canceled
			return res
		case <-str.Context().Done():
			str.CancelWrite(0)
			res.Outcome = media.Stopped
			return res
		}
	}
}

// bench is a relay and its clients in a synctest bubble.
type bench struct {
	t       *testing.T
	relay   *Relay
	serve   func(context.Context, transport.Conn) error // a peer, as relay.Serve does
	ctx     context.Context
	senders map[transport.Conn]*plainSender
	mu      sync.Mutex
	rules   *switchableRules // nil: the test's Config has an Authorizer
}

// switchableRules is an Authorizer that a test replaces while the relay runs.
type switchableRules struct{ now atomic.Pointer[Authorizer] }

func (s *switchableRules) Authorize(ctx context.Context, r AuthRequest) (Grant, error) {
	return (*s.now.Load()).Authorize(ctx, r)
}

// Changed implements [Reviewer].
func (s *switchableRules) Changed() bool {
	r, ok := (*s.now.Load()).(Reviewer)
	return ok && r.Changed()
}

// authorize replaces the relay's Authorizer.
func (b *bench) authorize(a Authorizer) { b.rules.now.Store(&a) }

// authorizer returns the authorizer that authorize was called with last.
func (b *bench) authorizer() Authorizer { return *b.rules.now.Load() }

// onBench runs a test in a bubble of its own, with fake time, and checks that nothing remains.
func onBench(t *testing.T, cfg Config, f func(*bench)) {
	t.Helper()
	onBenches(t, cfg, 1, func(bs []*bench) { f(bs[0]) })
}

// onBenches is onBench with several relays.
func onBenches(t *testing.T, cfg Config, n int, f func([]*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		if cfg.Logger == nil {
			cfg.Logger = slog.New(slog.DiscardHandler)
		}
		var running sync.WaitGroup
		bs := make([]*bench, n)
		for i := range bs {
			bs[i] = newBench(t, ctx, cfg)
			running.Go(func() { bs[i].relay.Run(ctx) })
		}
		f(bs)
		synctest.Wait()
		for _, b := range bs {
			b.closeAll()
		}
		for _, b := range bs {
			b.relay.tasks.Wait()
		}
		time.Sleep(3 * time.Minute) // by now, everything that is kept for a while is gone
		synctest.Wait()
		for _, b := range bs {
			b.checkEmpty()
		}
		cancel()
		running.Wait()
	})
}

func newBench(t *testing.T, ctx context.Context, cfg Config) *bench {
	b := &bench{t: t, ctx: ctx, senders: make(map[transport.Conn]*plainSender)}
	if cfg.Authorizer == nil {
		b.rules = new(switchableRules)
		b.authorize(AllowAll{})
		cfg.Authorizer = b.rules
	}
	r, err := New(cfg)
	require.NoError(t, err)
	r.senderOf = b.senderOf
	b.relay, b.serve = r, r.Serve
	return b
}

// checkEmpty checks that nothing remains.
func (b *bench) checkEmpty() {
	t, r := b.t, b.relay
	d := r.directory
	require.Zero(t, d.Count(), "tracks")
	require.Zero(t, d.CountBelow(nil))
	require.Empty(t, d.Watched(""))
	require.True(t, d.Names.IsEmpty())
	require.Zero(t, r.cache.Bytes(), "cache")
	require.Zero(t, r.accounts.Count(), "accounts")
	require.Zero(t, r.accounts.OpenRequests(), "requests")
	require.Empty(t, r.sessions.neighbors)
}

func (b *bench) senderOf(conn transport.Conn) (hub.MediaSender, error) {
	p := &plainSender{conn: conn}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.senders[conn] = p
	return p.newSubscription, nil
}

func (b *bench) closeAll() {
	peers, _ := b.relay.sessions.list()
	for _, p := range peers {
		p.Session.Close(moqt.SessionNoError, "")
	}
	b.relay.sessions.closeNeighbors()
	synctest.Wait()
}

// client is a peer of the relay.
type client struct {
	*session.Session
	b       *bench
	conn    *transporttest.Conn
	server  transport.Conn
	handler *clientHandler
	result  chan error
	blocked []moqt.FullTrackName
}

// clientHandler has a function for each request; a nil function refuses. The functions are set before the session runs,
// or by client.serve.
type clientHandler struct {
	session.Unsupported
	served      atomic.Bool // orders serve before the requests that come after it
	subscribe   func(*session.Publication)
	publish     func(*session.Subscription)
	fetch       func(*session.IncomingFetch)
	trackStatus func(*session.IncomingTrackStatus)
	goaway      chan moqt.Goaway
}

func (h *clientHandler) HandleSubscribe(p *session.Publication) {
	h.served.Load()
	orElse(h.subscribe, h.Unsupported.HandleSubscribe)(p)
}

func (h *clientHandler) HandlePublish(s *session.Subscription) {
	orElse(h.publish, h.Unsupported.HandlePublish)(s)
}

func (h *clientHandler) HandleFetch(f *session.IncomingFetch) {
	orElse(h.fetch, h.Unsupported.HandleFetch)(f)
}

func (h *clientHandler) HandleTrackStatus(s *session.IncomingTrackStatus) {
	orElse(h.trackStatus, h.Unsupported.HandleTrackStatus)(s)
}

// orElse returns the first of two functions, unless it is nil.
func orElse[T any](f, otherwise func(T)) func(T) {
	if f == nil {
		return otherwise
	}
	return f
}

func (h *clientHandler) HandleGoaway(_ *session.Session, m moqt.Goaway) { h.goaway <- m }

func (b *bench) connect(options ...func(*session.Config)) *client {
	return b.connectWith(transporttest.PipeConfig{}, options...)
}

func (b *bench) connectWith(pipe transporttest.PipeConfig, options ...func(*session.Config)) *client {
	conn, server := transporttest.Pipe(pipe)
	return b.attach(conn, server, options...)
}

// attach connects a client whose relay's end is server.
func (b *bench) attach(conn *transporttest.Conn, server transport.Conn, options ...func(*session.Config)) *client {
	c := &client{b: b, handler: &clientHandler{goaway: make(chan moqt.Goaway, 1)}, result: make(chan error, 1)}
	c.conn, c.server = conn, server
	cfg := session.Config{Authority: "relay", Path: "/", Handler: c.handler, Logger: slog.New(slog.DiscardHandler)}
	for _, o := range options {
		o(&cfg)
	}
	var err error
	c.Session, err = session.New(conn, cfg)
	require.NoError(b.t, err)
	go b.serve(b.ctx, server)
	go func() { c.result <- c.Run(b.ctx) }()
	<-c.Ready()
	return c
}

// sender returns the sender with which the relay sends media to the client.
func (c *client) sender() *plainSender {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	return c.b.senders[c.server]
}

var video = moqt.FullTrackName{Namespace: moqt.Namespace{"live", "room"}, Name: "video"}

// source publishes a track: it accepts each SUBSCRIBE, and sends what the test says on all of them.
type source struct {
	c          *client
	properties moqt.Properties
	largest    *moqt.Location
	now        func() *moqt.Location // instead of largest
	expires    *uint64
	path       moqt.HopPath // what the objects have come through

	mu       sync.Mutex
	pubs     []*session.Publication
	updates  []moqt.Parameters
	requests []moqt.Parameters
}

// origin has a client announce the namespace of the tests, and serve a source there.
func (b *bench) origin(s *source) *source {
	b.connect().serve(s).c.announce("live")
	return s
}

func (c *client) serve(s *source) *source {
	s.c = c
	c.handler.subscribe = func(p *session.Publication) {
		s.mu.Lock()
		s.requests = append(s.requests, p.Parameters())
		s.mu.Unlock()
		if p.Accept(moqt.Parameters{
			LargestObject: s.largestNow(), Expires: s.expires, HopPath: s.path,
		}, s.properties) == nil {
			s.keep(p)
		}
	}
	c.handler.served.Store(true)
	return s
}

func (s *source) largestNow() *moqt.Location {
	if s.now != nil {
		return s.now()
	}
	return s.largest
}

// keep answers updates until the subscription ends.
func (s *source) keep(p *session.Publication) {
	s.mu.Lock()
	s.pubs = append(s.pubs, p)
	s.mu.Unlock()
	for {
		select {
		case <-p.Context().Done():
			s.mu.Lock()
			s.pubs = slices.DeleteFunc(s.pubs, func(q *session.Publication) bool { return p == q })
			s.mu.Unlock()
			return
		case u := <-p.Updates():
			s.mu.Lock()
			s.updates = append(s.updates, u.Parameters)
			s.mu.Unlock()
			u.OK(moqt.Parameters{LargestObject: s.largestNow(), Expires: s.expires})
		}
	}
}

// announce sends PUBLISH_NAMESPACE.
func (c *client) announce(ns ...string) *session.PublishedNamespace {
	p, err := c.PublishNamespace(c.b.ctx, moqt.PublishNamespace{Namespace: ns})
	require.NoError(c.b.t, err)
	require.NoError(c.b.t, p.Wait(c.b.ctx))
	return p
}

// offer sends PUBLISH.
func (s *source) offer(c *client, params moqt.Parameters) (*session.Publication, error) {
	s.c = c
	p, err := c.Publish(c.b.ctx, moqt.Publish{Track: video, Parameters: params, Properties: s.properties})
	require.NoError(c.b.t, err)
	if err := p.Wait(c.b.ctx); err != nil {
		return p, err
	}
	go s.keep(p)
	synctest.Wait()
	return p, nil
}

// offers offers the track of the tests, whose largest object is given.
func (c *client) offers(largest *moqt.Location) *source {
	c.b.t.Helper()
	s := &source{}
	_, err := s.offer(c, moqt.Parameters{LargestObject: largest})
	require.NoError(c.b.t, err)
	return s
}

// next offers the track in another session.
func (b *bench) next(largest *moqt.Location) *source {
	b.t.Helper()
	return b.connect().offers(largest)
}

func (s *source) publication() *session.Publication {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pubs) == 0 {
		return nil
	}
	return s.pubs[len(s.pubs)-1]
}

// subgroupStream is a subgroup that a source sends.
type subgroupStream struct {
	t       *testing.T
	stream  transport.SendStream
	encoder moqt.SubgroupEncoder
}

func (s *source) open(h moqt.SubgroupHeader) *subgroupStream {
	if s.publication() == nil {
		synctest.Wait() // it has answered, and does not know its publication yet
	}
	str, err := s.publication().OpenSubgroup(s.c.b.ctx, h)
	require.NoError(s.c.b.t, err)
	return &subgroupStream{s.c.b.t, str, moqt.NewSubgroupEncoder(s.c.Version().DataLayout(), h)}
}

// group sends the objects 0 to n-1 of a group, on one stream that ends with FIN.
func (s *source) group(id uint64, n uint64) {
	g := s.open(moqt.SubgroupHeader{GroupID: id, FirstObject: true})
	for o := range n {
		g.object(o)
	}
	g.fin()
}

func payload(id uint64) string { return fmt.Sprint("object ", id) }

func (g *subgroupStream) object(id uint64) *subgroupStream {
	return g.write(moqt.ObjectHeader{ObjectID: id}, payload(id))
}

func (g *subgroupStream) write(h moqt.ObjectHeader, payload string) *subgroupStream {
	h.PayloadLength = uint64(len(payload))
	b, err := g.encoder.AppendObject(nil, h)
	require.NoError(g.t, err)
	_, err = g.stream.Write(append(b, payload...))
	require.NoError(g.t, err)
	synctest.Wait()
	return g
}

// half begins an object of eight bytes.
func (g *subgroupStream) half(id uint64) *subgroupStream {
	b, err := g.encoder.AppendObject(nil, moqt.ObjectHeader{ObjectID: id, PayloadLength: 8})
	require.NoError(g.t, err)
	_, err = g.stream.Write(append(b, "half"...))
	require.NoError(g.t, err)
	synctest.Wait()
	return g
}

func (g *subgroupStream) fin() {
	require.NoError(g.t, g.stream.Close())
	synctest.Wait()
}

func (g *subgroupStream) reset(code uint64) {
	g.stream.CancelWrite(code)
	synctest.Wait()
}

// sink takes what a subscriber receives: "7.0" for an object, "7 fin" and "7 reset 1" for ends of subgroups, "7/2.0"
// for a subgroup other than 0, "datagram 7.0".
type sink struct {
	layout moqt.DataLayout // of the subscriber's version; 0 is DataLayout1

	mu      sync.Mutex
	got     []string
	headers []moqt.SubgroupHeader
}

func (k *sink) note(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.got = append(k.got, fmt.Sprintf(format, args...))
}

// take waits until nothing moves any more, and returns what has come since the last call: by group, because streams
// have no order among each other.
func (k *sink) take() string {
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	slices.SortStableFunc(k.got, func(a, b string) int { return cmp.Compare(groupOf(a), groupOf(b)) })
	got := strings.Join(k.got, ", ")
	k.got = nil
	return got
}

// groupOf returns the group that a note of a sink begins with.
func groupOf(note string) (group uint64) {
	fmt.Sscan(strings.TrimPrefix(note, "datagram "), &group)
	return group
}

func (k *sink) HandleSubgroup(g *session.Subgroup) {
	k.mu.Lock()
	k.headers = append(k.headers, g.Header)
	k.mu.Unlock()
	name := fmt.Sprint(g.Header.GroupID)
	if g.Header.SubgroupIDMode == moqt.SubgroupIDPresent {
		name += fmt.Sprint("/", g.Header.SubgroupID)
	}
	err := k.objects(g, name)
	var reset *transport.StreamError
	switch {
	case errors.Is(err, io.EOF):
		k.note("%s fin", name)
	case errors.As(err, &reset):
		k.note("%s reset %d", name, reset.Code)
	}
}

func (k *sink) objects(g *session.Subgroup, name string) error {
	p := moqt.NewSubgroupParser(cmp.Or(k.layout, moqt.DataLayout1), g.Header, 0)
	buf := make([]byte, 1000)
	left, text, want := uint64(0), "", ""
	for {
		n, err := g.Read(buf)
		for b := buf[:n]; len(b) > 0; {
			if left > 0 {
				m := min(left, uint64(len(b)))
				p.Next(b[:m])
				text += string(b[:m])
				b, left = b[m:], left-m
				if left == 0 && text != "" {
					k.note("%s", want+suffix(text))
				}
				continue
			}
			o, m, err := p.Next(b)
			if err != nil {
				break
			}
			b, left, text = b[m:], o.PayloadLength, ""
			want = fmt.Sprintf("%s.%d", name, o.ObjectID)
			if o.Status != moqt.StatusNormal {
				k.note("%s %s", want, o.Status)
			}
		}
		if err != nil {
			return err
		}
	}
}

// suffix shows payloads that payload does not make.
func suffix(text string) string {
	if strings.HasPrefix(text, "object ") {
		return ""
	}
	if len(text) > 20 {
		text = fmt.Sprintf("%s… %d bytes", text[:5], len(text))
	}
	return "=" + text
}

func (k *sink) HandleDatagram(o *moqt.ObjectDatagram) {
	k.note("datagram %d.%d", o.Location.Group, o.Location.Object)
}

// subscribe sends SUBSCRIBE and waits for the answer.
func (c *client) subscribe(params moqt.Parameters) (*sink, *session.Subscription, error) {
	k := &sink{layout: c.Version().DataLayout()}
	sub, err := c.Subscribe(c.b.ctx, moqt.Subscribe{Track: video, Parameters: params}, k)
	require.NoError(c.b.t, err)
	_, err = sub.Wait(c.b.ctx)
	synctest.Wait()
	return k, sub, err
}

func (c *client) mustSubscribe(params moqt.Parameters) (*sink, *session.Subscription) {
	k, sub, err := c.subscribe(params)
	require.NoError(c.b.t, err)
	return k, sub
}

// update updates a subscription, and returns the answer.
func (b *bench) update(s *session.Subscription, params moqt.Parameters) *moqt.RequestOK {
	b.t.Helper()
	ok, err := s.Update(b.ctx, params)
	require.NoError(b.t, err)
	return ok
}

func propertiesOf(t *testing.T, pairs ...moqt.KeyValuePair) moqt.Properties {
	t.Helper()
	p, err := moqt.NewProperties(pairs...)
	require.NoError(t, err)
	return p
}

func (b *bench) refused(err error, code moqt.RequestErrorCode) {
	b.t.Helper()
	var refused *moqt.RequestError
	require.ErrorAs(b.t, err, &refused)
	require.Equal(b.t, code, refused.Code, refused.Reason)
}

// done waits for the end of a subscription, and checks its code.
func (b *bench) done(sub *session.Subscription, code moqt.PublishDoneCode) *session.DoneError {
	b.t.Helper()
	<-sub.Context().Done()
	var done *session.DoneError
	require.ErrorAs(b.t, context.Cause(sub.Context()), &done)
	require.Equal(b.t, code, done.Status, done.Reason)
	return done
}
