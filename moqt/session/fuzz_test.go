package session

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
	"sluice/moqt"
	"sluice/transport/transporttest"
)

// FuzzPeer plays a peer that does what the input says, against sessions of both roles that have requests of their own
// open. The server is a relay with a Hop ID. The session must end with a code of the draft or go on. The bubble fails
// if the session leaves a goroutine behind.
func FuzzPeer(f *testing.F) {
	for i, v := range laterVersions() {
		seedPeer(f, uint8(i), v)
	}
	f.Fuzz(func(t *testing.T, number uint8, server bool, control, request, response, uni, datagram []byte) {
		defer testlimit.Start(t, len(control)+len(request)+len(response)+len(uni)+len(datagram), 1000)()
		v := laterVersions()[int(number)%len(laterVersions())]
		synctest.Test(t, func(t *testing.T) { playBytes(t, v, server, control, request, response, uni, datagram) })
	})
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
		f.Add(number, true, encode(&moqt.Setup{}), encode(m), encode(&moqt.RequestOK{}), subgroupHeader(1),
			[]byte{0, 1, 0, 0, 9})
	}
	token := moqt.Parameters{AuthorizationTokens: []moqt.Token{register(1, "a"), plain("b")}}
	again := moqt.Parameters{AuthorizationTokens: []moqt.Token{useAlias(1), deleteAlias(1)}}
	f.Add(number, true, encode(&moqt.Setup{AuthorizationTokens: token.AuthorizationTokens[1:]}),
		encode(&moqt.Subscribe{Track: testTrack, Parameters: token},
			&moqt.RequestUpdate{RequestID: 2, Parameters: again}),
		encode(&moqt.RequestOK{}, &moqt.RequestUpdate{RequestID: 4, Parameters: token}), subgroupHeader(1), []byte{0})
	way := moqt.Parameters{HopPath: moqt.HopPath{3, 7}, RouteCost: new(uint64(2))}
	relay := encode(&moqt.Setup{HopID: new(uint64(7)), RelayHops: new(uint64(7)), RequestHops: true})
	f.Add(number, true, relay, encode(&moqt.PublishNamespace{Namespace: moqt.Namespace{"a"}, Parameters: way},
		&moqt.PublishNamespace{Namespace: moqt.Namespace{"a"}, Parameters: way},
		&moqt.RequestUpdate{RequestID: 2, Parameters: way}),
		encode(&moqt.RequestOK{}, &moqt.NamespaceAdded{Suffix: moqt.Namespace{"a"}, Parameters: &way}),
		subgroupHeader(1), []byte{0})
	way.RouteCost = nil
	f.Add(number, true, relay, encode(&moqt.Subscribe{Track: testTrack, Parameters: way}),
		encode(&moqt.SubscribeOK{TrackAlias: 1, Parameters: way}), subgroupHeader(1), []byte{0})
	responses := [][]byte{
		encode(&moqt.SubscribeOK{TrackAlias: 1}, &moqt.PublishDone{StreamCount: 1}),
		encode(&moqt.FetchOK{}),
		encode(&moqt.RequestOK{}, &moqt.NamespaceAdded{}, &moqt.NamespaceDone{}),
		encode(&moqt.RequestOK{}, &moqt.RequestUpdate{RequestID: 1}),
		encode(&moqt.RequestError{Code: moqt.RequestRedirect, Redirect: &moqt.Redirect{URI: "moqt://x"}}),
	}
	control := encode(&moqt.Setup{MaxAuthTokenCacheSize: 1000}, &moqt.Goaway{RequestID: new(uint64(0))})
	for _, response := range responses {
		for _, uni := range [][]byte{fetchHeader(4), moqt.AppendPaddingStreamType(nil, v), {0x3e}} {
			f.Add(number, false, control, encode(&moqt.Goaway{}), response, uni, []byte{9, 1, 0, 0})
		}
	}
}

func playBytes(t *testing.T, v moqt.Version, server bool, control, request, response, uni, datagram []byte) {
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
	if stream, err := far.OpenUniStream(); err == nil {
		_, _ = stream.Write(control)
	}
	askForEverything(s)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for {
			stream, err := far.AcceptStream(ctx)
			if err != nil {
				return
			}
			go io.Copy(io.Discard, stream)
			go send(stream, response)
		}
	}()
	_ = far.SendDatagram(datagram)
	if stream, err := far.OpenStream(); err == nil {
		go io.Copy(io.Discard, stream)
		go send(stream, request)
	}
	if stream, err := far.OpenUniStream(); err == nil {
		go send(stream, uni)
	}
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
