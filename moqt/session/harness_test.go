package session

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/transport"
	"sluice/transport/transporttest"
)

var (
	testTrack  = moqt.FullTrackName{Namespace: moqt.Namespace{"example", "room"}, Name: "video"}
	otherTrack = moqt.FullTrackName{Namespace: moqt.Namespace{"example", "room"}, Name: "audio"}
)

// setting is the configuration of a script.
type setting struct {
	cfg    Config
	pipe   transporttest.PipeConfig
	silent bool // the peer sends no SETUP by itself
	log    *slog.Logger
}

// script is a session under test whose peer the test plays.
type script struct {
	*testing.T
	s       *Session
	conn    *transporttest.Conn // the peer's end
	control transport.SendStream
	ours    transport.ReceiveStream // the control stream of the session
	nextID  uint64                  // the peer's
	run     chan error
}

// play runs f with a session in a bubble with its own clock. Goroutines that outlive the session make it fail.
func play(t *testing.T, set setting, f func(*script)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client, server := transporttest.Pipe(set.pipe)
		ours, theirs := client, server
		if set.cfg.Role == Server {
			ours, theirs = server, client
		}
		set.cfg.Logger = cmp.Or(set.log, slog.New(slog.DiscardHandler))
		s, err := New(ours, set.cfg)
		require.NoError(t, err)
		p := &script{T: t, s: s, conn: theirs, nextID: uint64(1 - set.cfg.Role), run: make(chan error, 1)}
		go func() { p.run <- s.Run(context.Background()) }()
		p.ours, err = p.conn.AcceptUniStream(t.Context())
		require.NoError(t, err)
		if !set.silent {
			p.setup(&moqt.Setup{})
			<-s.Ready()
		}
		f(p)
		s.Close(moqt.SessionNoError, "")
		<-s.Context().Done()
	})
}

// serve is play with a server whose requests go to the handler.
func serve(t *testing.T, f func(*script, *handler)) {
	t.Helper()
	h := newHandler()
	play(t, setting{cfg: Config{Role: Server, Handler: h}}, func(p *script) { f(p, h) })
}

func (p *script) encode(messages ...moqt.Message) (b []byte) {
	p.Helper()
	for _, m := range messages {
		var err error
		b, err = moqt.AppendMessage(b, p.s.Version(), m)
		require.NoError(p, err)
	}
	return b
}

// setup opens the peer's control stream.
func (p *script) setup(m *moqt.Setup) { p.control = p.uni(p.encode(m)) }

// uni opens a unidirectional stream.
func (p *script) uni(b []byte) transport.SendStream {
	p.Helper()
	stream, err := p.conn.OpenUniStream()
	require.NoError(p, err)
	p.write(stream, b)
	return stream
}

func (p *script) write(w io.Writer, b []byte) {
	p.Helper()
	_, err := w.Write(b)
	require.NoError(p, err)
}

// exchange is a request stream as the peer sees it.
type exchange struct {
	transport.Stream
	p      *script
	reader *moqt.Reader
}

func (p *script) exchange(stream transport.Stream) *exchange {
	return &exchange{Stream: stream, p: p, reader: moqt.NewReader(stream, p.s.Version())}
}

// id returns the peer's next Request ID.
func (p *script) id() uint64 {
	p.nextID += 2
	return p.nextID - 2
}

// raw opens a bidirectional stream.
func (p *script) raw(b []byte) *exchange {
	p.Helper()
	stream, err := p.conn.OpenStream()
	require.NoError(p, err)
	p.write(stream, b)
	return p.exchange(stream)
}

// request sends a request of the peer, with its next Request ID.
func (p *script) request(m moqt.Message) *exchange {
	p.Helper()
	*moqt.PartsOf(m).RequestID = p.id()
	return p.raw(p.encode(m))
}

// accept takes the next request of the session.
func (p *script) accept() *exchange {
	p.Helper()
	stream, err := p.conn.AcceptStream(p.Context())
	require.NoError(p, err)
	return p.exchange(stream)
}

func (e *exchange) send(messages ...moqt.Message) {
	e.p.Helper()
	e.p.write(e, e.p.encode(messages...))
}

// update sends a REQUEST_UPDATE with the peer's next Request ID.
func (e *exchange) update(parameters moqt.Parameters) {
	e.p.Helper()
	e.send(&moqt.RequestUpdate{RequestID: e.p.id(), Parameters: parameters})
}

// receive returns the next message of the session.
func (e *exchange) receive() moqt.Message {
	e.p.Helper()
	m, err := e.reader.Read()
	require.NoError(e.p, err)
	return m
}

func (e *exchange) requireEOF() {
	e.p.Helper()
	_, err := e.reader.Read()
	require.ErrorIs(e.p, err, io.EOF)
}

// requireReset waits until the session resets its side of a stream.
func (e *exchange) requireReset(code moqt.StreamResetCode) {
	e.p.Helper()
	for {
		_, err := e.reader.Read()
		if err == nil {
			continue
		}
		require.Equal(e.p, &transport.StreamError{Code: uint64(code), Remote: true}, err)
		return
	}
}

// requireStopped waits until the session stops reading a stream.
func (p *script) requireStopped(stream transport.SendStream, code moqt.StreamResetCode) {
	p.Helper()
	<-stream.Context().Done()
	_, err := stream.Write([]byte{0})
	require.Equal(p, &transport.StreamError{Code: uint64(code), Remote: true}, err)
}

// requireRefused reads a REQUEST_ERROR and FIN.
func (e *exchange) requireRefused(code moqt.RequestErrorCode) *moqt.RequestError {
	e.p.Helper()
	m := e.receive()
	require.IsType(e.p, &moqt.RequestError{}, m)
	require.Equal(e.p, code, m.(*moqt.RequestError).Code)
	e.requireEOF()
	return m.(*moqt.RequestError)
}

// requireClosed waits until the session closes with a code, and has told the peer.
func (p *script) requireClosed(code moqt.SessionErrorCode) {
	p.Helper()
	err := <-p.run
	if code == moqt.SessionNoError {
		require.NoError(p, err)
	} else {
		violation, ok := errors.AsType[*moqt.ProtocolError](err)
		require.True(p, ok, "%v", err)
		require.Equal(p, code, violation.Code, violation.Reason)
		require.NotEmpty(p, violation.Reason)
	}
	closed, ok := errors.AsType[*transport.SessionError](context.Cause(p.conn.Context()))
	require.True(p, ok)
	require.True(p, closed.Remote)
	require.Equal(p, uint64(code), closed.Code)
}

// requireOpen checks that the session has not ended.
func (p *script) requireOpen() {
	p.Helper()
	synctest.Wait()
	require.NoError(p, context.Cause(p.s.Context()))
}

// subscribe lets the session subscribe, and returns the stream on which the peer answers.
func (p *script) subscribe(track moqt.FullTrackName, r Receiver) (*Subscription, *exchange) {
	p.Helper()
	sub, err := p.s.Subscribe(p.Context(), moqt.Subscribe{Track: track}, r)
	require.NoError(p, err)
	e := p.accept()
	require.Equal(p, track, e.receive().(*moqt.Subscribe).Track)
	return sub, e
}

// subscribed does the same, and accepts the subscription.
func (p *script) subscribed(track moqt.FullTrackName, alias uint64, r Receiver) (*Subscription, *exchange) {
	p.Helper()
	sub, e := p.subscribe(track, r)
	e.send(&moqt.SubscribeOK{TrackAlias: alias})
	_, err := sub.Wait(p.Context())
	require.NoError(p, err)
	return sub, e
}

// collector is a Receiver that keeps everything.
type collector struct {
	subgroups chan *collected
	datagrams chan *moqt.ObjectDatagram
}

type collected struct {
	header moqt.SubgroupHeader
	offset int64 // of the stream when it was handed over
	body   []byte
	err    error
}

func newCollector() *collector {
	return &collector{make(chan *collected, 100), make(chan *moqt.ObjectDatagram, 100)}
}

func (c *collector) HandleSubgroup(g *Subgroup) {
	s := &collected{header: g.Header, offset: g.Offset()}
	s.body, s.err = io.ReadAll(g)
	c.subgroups <- s
}

func (c *collector) HandleDatagram(o *moqt.ObjectDatagram) { c.datagrams <- o }

// handler passes requests on to the test.
type handler struct {
	setup      func(*Session, Peer) error
	subscribes chan *Publication
	publishes  chan *Subscription
	fetches    chan *IncomingFetch
	statuses   chan *IncomingTrackStatus
	namespaces chan *IncomingPublishNamespace
	discovers  chan *IncomingSubscribeNamespace
	tracks     chan *IncomingSubscribeTracks
	goaways    chan moqt.Goaway
}

func newHandler() *handler {
	return &handler{
		subscribes: make(chan *Publication, 100),
		publishes:  make(chan *Subscription, 100),
		fetches:    make(chan *IncomingFetch, 100),
		statuses:   make(chan *IncomingTrackStatus, 100),
		namespaces: make(chan *IncomingPublishNamespace, 100),
		discovers:  make(chan *IncomingSubscribeNamespace, 100),
		tracks:     make(chan *IncomingSubscribeTracks, 100),
		goaways:    make(chan moqt.Goaway, 100),
	}
}

func (h *handler) HandleSetup(s *Session, p Peer) error {
	if h.setup == nil {
		return nil
	}
	return h.setup(s, p)
}

func (h *handler) HandleSubscribe(p *Publication)                         { h.subscribes <- p }
func (h *handler) HandlePublish(s *Subscription)                          { h.publishes <- s }
func (h *handler) HandleFetch(f *IncomingFetch)                           { h.fetches <- f }
func (h *handler) HandleTrackStatus(t *IncomingTrackStatus)               { h.statuses <- t }
func (h *handler) HandlePublishNamespace(p *IncomingPublishNamespace)     { h.namespaces <- p }
func (h *handler) HandleSubscribeNamespace(n *IncomingSubscribeNamespace) { h.discovers <- n }
func (h *handler) HandleSubscribeTracks(t *IncomingSubscribeTracks)       { h.tracks <- t }
func (h *handler) HandleGoaway(_ *Session, g moqt.Goaway)                 { h.goaways <- g }
