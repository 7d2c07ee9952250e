package session

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
	"sluice/moqt"
	"sluice/transport"
	"sluice/transport/transporttest"
)

// FuzzPeer plays a peer that does what the input says, against sessions of both roles that have requests of their own
// open. The server is a relay with a Hop ID. The session must end with a code of the draft or go on. The bubble fails
// if the session leaves a goroutine behind.
func FuzzPeer(f *testing.F) {
	for i, v := range moqt.Versions() {
		if v.HasOneControlStream() {
			seedPeer16(f, uint8(i))
		} else {
			seedPeer(f, uint8(i), v)
		}
	}
	f.Fuzz(func(t *testing.T, number uint8, server bool, control, later, request, response, uni, datagram []byte) {
		says := peerBytes{control, later, request, response, uni, datagram}
		defer testlimit.Start(t, len(slices.Concat(control, later, request, response, uni, datagram)), 1000)()
		v := moqt.Versions()[int(number)%len(moqt.Versions())]
		synctest.Test(t, func(t *testing.T) { playBytes(t, v, server, says) })
	})
}

// peerBytes is what a peer writes.
type peerBytes struct {
	control, later []byte // to the control stream, before and after the requests of the session
	request        []byte // to a bidirectional stream of its own
	response       []byte // to each of the session's
	uni, datagram  []byte
}

// seedPeer adds what peers send that speak a version. What it does not have is left out.
func seedPeer(f *testing.F, number uint8, v moqt.Version) {
	f.Helper()
	encode := func(messages ...moqt.Message) (b []byte) {
		for _, m := range messages {
			b, _ = moqt.AppendMessage(b, v, m)
		}
		return b
	}
	for _, m := range allRequests(moqt.Namespace{"a"}) {
		f.Add(number, true, encode(&moqt.Setup{}), []byte{}, encode(m), encode(&moqt.RequestOK{}), subgroupHeader(1),
			[]byte{0, 1, 0, 0, 9})
	}
	token := moqt.Parameters{AuthorizationTokens: []moqt.Token{register(1, "a"), plain("b")}}
	again := moqt.Parameters{AuthorizationTokens: []moqt.Token{useAlias(1), deleteAlias(1)}}
	f.Add(number, true, encode(&moqt.Setup{AuthorizationTokens: token.AuthorizationTokens[1:]}), []byte{},
		encode(&moqt.Subscribe{Track: testTrack, Parameters: token},
			&moqt.RequestUpdate{RequestID: 2, Parameters: again}),
		encode(&moqt.RequestOK{}, &moqt.RequestUpdate{RequestID: 4, Parameters: token}), subgroupHeader(1), []byte{0})
	way := moqt.Parameters{HopPath: moqt.HopPath{3, 7}, RouteCost: new(uint64(2))}
	relay := encode(&moqt.Setup{HopID: new(uint64(7)), RelayHops: new(uint64(7)), RequestHops: true})
	f.Add(number, true, relay, []byte{}, encode(&moqt.PublishNamespace{Namespace: moqt.Namespace{"a"}, Parameters: way},
		&moqt.PublishNamespace{Namespace: moqt.Namespace{"a"}, Parameters: way},
		&moqt.RequestUpdate{RequestID: 2, Parameters: way}),
		encode(&moqt.RequestOK{}, &moqt.NamespaceAdded{Suffix: moqt.Namespace{"a"}, Parameters: &way}),
		subgroupHeader(1), []byte{0})
	way.RouteCost = nil
	f.Add(number, true, relay, []byte{}, encode(&moqt.Subscribe{Track: testTrack, Parameters: way}),
		encode(&moqt.SubscribeOK{TrackAlias: 1, Parameters: way}), subgroupHeader(1), []byte{0})
	responses := [][]byte{
		encode(&moqt.SubscribeOK{TrackAlias: 1}, &moqt.PublishDone{StreamCount: 1}),
		encode(&moqt.FetchOK{}),
		encode(&moqt.RequestOK{}, &moqt.NamespaceAdded{}, &moqt.NamespaceDone{}),
		encode(&moqt.RequestOK{}, &moqt.RequestUpdate{RequestID: 1}),
		encode(&moqt.RequestError{Code: moqt.RequestRedirect, Redirect: &moqt.Redirect{URI: "moqt://x"}}),
	}
	control, goaway := encode(&moqt.Setup{MaxAuthTokenCacheSize: 1000}), encode(&moqt.Goaway{RequestID: new(uint64(0))})
	for _, response := range responses {
		for _, uni := range [][]byte{fetchHeader(4), moqt.AppendPaddingStreamType(nil, v), {0x3e}} {
			f.Add(number, false, control, goaway, encode(&moqt.Goaway{}), response, uni, []byte{9, 1, 0, 0})
		}
	}
}

// seedPeer16 adds what peers send that speak draft-16.
func seedPeer16(f *testing.F, number uint8) {
	f.Helper()
	about := func(request uint64, answers moqt.MessageType, messages ...moqt.Message) (b []byte) {
		for _, m := range messages {
			var err error
			b, err = moqt.AppendMessageTo(b, moqt.Draft16, moqt.Reference{RequestID: request, Answers: answers}, m)
			require.NoError(f, err)
		}
		return b
	}
	for _, server := range []bool{true, false} {
		ours, theirs := uint64(0), uint64(1)
		if server {
			ours, theirs = theirs, ours
		}
		setup := about(0, 0, &moqt.Setup{Server: !server, MaxRequestID: 100})
		// The ids of askForEverything.
		answers := slices.Concat(
			about(ours, 0, &moqt.SubscribeOK{TrackAlias: 1}, &moqt.PublishDone{StreamCount: 1}),
			about(ours+2, moqt.MessagePublish, &moqt.RequestOK{}),
			about(ours+4, 0, &moqt.FetchOK{}),
			about(ours+6, 0, &moqt.RequestOK{}),
		)
		refusals := slices.Concat(
			about(ours, 0, &moqt.RequestError{Code: moqt.RequestUnauthorized}, &moqt.MaxRequestID{Max: 200}),
			about(ours+2, moqt.MessagePublish, &moqt.RequestOK{}),
			about(ours+2, 0, &moqt.RequestUpdate{RequestID: theirs}, &moqt.Unsubscribe{}),
			about(ours+6, 0, &moqt.RequestOK{}, &moqt.NamespaceRevoked{}), about(0, 0, &moqt.Goaway{}),
		)
		reported := about(ours+8, 0, &moqt.RequestOK{}, &moqt.NamespaceAdded{Suffix: moqt.Namespace{"a"}},
			&moqt.NamespaceDone{Suffix: moqt.Namespace{"a"}})
		f.Add(number, server, setup, answers, about(0, 0, &moqt.SubscribeNamespace{RequestID: theirs}), reported,
			subgroupHeader(1), []byte{0, 1, 0, 0, 9})
		f.Add(number, server, setup, refusals, about(0, 0, &moqt.SubscribeTracks{RequestID: theirs + 2}),
			about(ours+8, 0, &moqt.RequestOK{}),
			fetchHeader(ours+4), []byte{9, 1, 0, 0})
		requests := slices.Concat(
			about(0, 0, &moqt.Subscribe{RequestID: theirs, Track: testTrack}),
			about(theirs, 0, &moqt.RequestUpdate{RequestID: theirs + 2}, &moqt.Unsubscribe{}),
			about(0, 0, &moqt.Publish{RequestID: theirs + 4, Track: otherTrack, TrackAlias: 1}),
			about(theirs+4, 0, &moqt.PublishDone{}),
			about(0, 0, &moqt.Fetch{RequestID: theirs + 6, FetchType: moqt.FetchStandalone, Track: testTrack}),
			about(theirs+6, 0, &moqt.FetchCancel{}),
			about(0, 0, &moqt.TrackStatus{RequestID: theirs + 8, Track: testTrack}),
			about(0, 0, &moqt.PublishNamespace{RequestID: theirs + 10, Namespace: moqt.Namespace{"a"}}),
			about(theirs+10, 0, &moqt.NamespaceWithdrawn{}),
		)
		f.Add(number, server, setup, requests, about(0, 0, &moqt.SubscribeTracks{RequestID: theirs + 12}),
			about(ours+8, 0, &moqt.RequestError{Code: moqt.RequestUnauthorized}), subgroupHeader(1),
			[]byte{0, 1, 0, 0, 9})
	}
}

func playBytes(t *testing.T, v moqt.Version, server bool, says peerBytes) {
	near, far := transporttest.Pipe(transporttest.PipeConfig{Protocol: v.ALPN()})
	cfg := Config{Handler: obliging{}, Logger: slog.New(slog.DiscardHandler)}
	if server {
		cfg.Role, cfg.HopID = Server, ourHop
		near, far = far, near
	}
	s, err := New(near, cfg)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.Background()) }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	control := openControl(ctx, far, v, server)
	_, _ = control.Write(says.control)
	go askForEverything(s) // draft-16 waits for SETUP
	synctest.Wait()
	go func() {
		for {
			stream, err := far.AcceptStream(ctx)
			if err != nil {
				return
			}
			go io.Copy(io.Discard, stream)
			go send(stream, says.response)
		}
	}()
	// One after the other, else the first violation would hide the others more often.
	_, _ = control.Write(says.later)
	synctest.Wait()
	if stream, err := far.OpenStream(); err == nil {
		go io.Copy(io.Discard, stream)
		go send(stream, says.request)
	}
	synctest.Wait()
	if stream, err := far.OpenUniStream(); err == nil {
		go send(stream, says.uni)
	}
	synctest.Wait()
	_ = far.SendDatagram(says.datagram)
	time.Sleep(time.Hour) // all timeouts
	select {
	case err := <-ended:
		code, _ := closeCode(err)
		require.NotEqual(t, moqt.SessionInternalError, code, "%v", err)
		require.NotContains(t, code.String(), "0x", "%v", err) // it has a name
	default:
		s.Close(moqt.SessionNoError, "")
		require.NoError(t, <-ended)
	}
}

// openControl returns the stream on which a peer writes control messages to a session.
func openControl(ctx context.Context, far transport.Conn, v moqt.Version, server bool) io.Writer {
	var stream transport.Stream
	var err error
	switch {
	case !v.HasOneControlStream():
		stream, err := far.OpenUniStream()
		if err != nil {
			return io.Discard
		}
		return stream
	case server:
		stream, err = far.OpenStream()
	default:
		stream, err = far.AcceptStream(ctx)
	}
	if err != nil {
		return io.Discard
	}
	go io.Copy(io.Discard, stream)
	return stream
}

func send(stream io.WriteCloser, b []byte) {
	if _, err := io.Copy(stream, bytes.NewReader(b)); err == nil {
		_ = stream.Close()
	}
}

// askForEverything makes six requests, one of each type that stays open.
func askForEverything(s *Session) {
	ctx, p := context.Background(), moqt.Parameters{}
	if !s.Version().HasJoiningFetch() {
		p.Fill = new(moqt.Parameters)
	}
	_, _ = s.Subscribe(ctx, moqt.Subscribe{Track: testTrack, Parameters: p}, discard{})
	_, _ = s.Publish(ctx, moqt.Publish{Track: otherTrack})
	fetch, _ := s.Fetch(ctx, moqt.Fetch{
		FetchType: moqt.FetchStandalone, Track: testTrack, Start: moqt.Location{Group: 1},
	})
	_, _ = s.PublishNamespace(ctx, moqt.PublishNamespace{Namespace: moqt.Namespace{"a"}})
	_, _ = s.SubscribeNamespace(ctx, moqt.SubscribeNamespace{}, func(moqt.Namespace, bool, moqt.Parameters) {})
	_, _ = s.SubscribeTracks(ctx, moqt.SubscribeTracks{Parameters: p}, func(moqt.FullTrackName) {})
	if fetch == nil {
		return
	}
	go func() {
		if stream, err := fetch.Stream(ctx); err == nil {
			_, _ = io.Copy(io.Discard, stream)
		}
	}()
}

type discard struct{}

func (discard) HandleSubgroup(g *Subgroup)          { _, _ = io.Copy(io.Discard, g) }
func (discard) HandleDatagram(*moqt.ObjectDatagram) {}
func (discard) HandleFill(f *Fill)                  { _, _ = io.Copy(io.Discard, f) }

// obliging is a Handler that accepts all requests and all updates.
type obliging struct{}

func (obliging) agree(r *Request) {
	for {
		select {
		case u := <-r.Updates():
			_ = u.OK(moqt.Parameters{})
		case <-r.Context().Done():
			return
		}
	}
}

func (obliging) HandleSetup(*Session, Peer) error { return nil }

func (o obliging) HandleSubscribe(p *Publication) {
	_ = p.Accept(moqt.Parameters{LargestObject: &moqt.Location{Group: 1}}, nil)
	o.agree(p.Request)
}

func (o obliging) HandlePublish(sub *Subscription) {
	_ = sub.Accept(moqt.Parameters{}, discard{})
	o.agree(sub.Request)
}

func (o obliging) HandleFetch(f *IncomingFetch) {
	_ = f.OK(moqt.FetchOK{})
	o.agree(f.Request)
}

func (o obliging) HandleTrackStatus(t *IncomingTrackStatus) { _ = t.OK(moqt.Parameters{}, nil) }

func (o obliging) HandlePublishNamespace(p *IncomingPublishNamespace) {
	_ = p.OK()
	o.agree(p.Request)
}

func (o obliging) HandleSubscribeNamespace(n *IncomingSubscribeNamespace) {
	_ = n.OK()
	_ = n.Add(moqt.Namespace{"a", "b"}, moqt.Parameters{})
	o.agree(n.Request)
}

func (o obliging) HandleSubscribeTracks(s *IncomingSubscribeTracks) {
	_ = s.OK()
	_ = s.Blocked(testTrack)
	o.agree(s.Request)
}

func (obliging) HandleGoaway(*Session, moqt.Goaway) {}
