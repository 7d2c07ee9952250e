package session

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/transport"
	"sluice/transport/transporttest"
)

// pair16 is a client and a server that speak draft-16 with each other.
type pair16 struct {
	*testing.T
	client, server   *Session
	clients, servers *handler // what arrives there
}

// between runs f with two sessions of draft-16. In the end it checks that they hold nothing of past requests.
func between(t *testing.T, f func(p *pair16)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client, server := transporttest.Pipe(transporttest.PipeConfig{Protocol: moqt.Draft16.ALPN()})
		p := &pair16{T: t, clients: newHandler(), servers: newHandler()}
		start := func(conn transport.Conn, role Role, h *handler) *Session {
			s, err := New(conn, Config{Role: role, Handler: h, Logger: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			go s.Run(context.Background())
			return s
		}
		p.client, p.server = start(client, Client, p.clients), start(server, Server, p.servers)
		<-p.client.Ready()
		<-p.server.Ready()
		f(p)
		synctest.Wait()
		for _, s := range []*Session{p.client, p.server} {
			require.NoError(t, context.Cause(s.Context()))
			require.Zero(t, s.OpenRequests())
			require.Empty(t, s.shared.streams)
			require.Empty(t, s.shared.updates)
		}
		p.client.Close(moqt.SessionNoError, "")
		<-p.server.Context().Done()
	})
}

// TestSubscribeOfDraft16 subscribes, updates, transfers objects, and ends subscriptions in each way.
func TestSubscribeOfDraft16(t *testing.T) {
	between(t, func(p *pair16) {
		receiver := newCollector()
		sub, err := p.client.Subscribe(p.Context(), moqt.Subscribe{
			Track: testTrack, Parameters: moqt.Parameters{SubscriberPriority: new(uint8(200))},
		}, receiver)
		require.NoError(p, err)
		pub := <-p.servers.subscribes
		require.Equal(p, testTrack, pub.Track())
		require.Equal(p, uint8(200), *pub.Parameters().SubscriberPriority)
		require.NoError(p, pub.Accept(moqt.Parameters{LargestObject: &moqt.Location{Group: 100, Object: 2}},
			moqt.Properties{0x04, 0x64}))
		ok, err := sub.Wait(p.Context())
		require.NoError(p, err)
		require.Equal(p, moqt.Location{Group: 100, Object: 2}, *ok.Parameters.LargestObject)
		require.Equal(p, moqt.Properties{0x04, 0x64}, ok.Properties)

		updated := make(chan error)
		go func() {
			_, err := sub.Update(p.Context(), moqt.Parameters{Forward: new(false)})
			updated <- err
		}()
		u := <-pub.Updates()
		require.False(p, *u.Parameters.Forward)
		require.NoError(p, u.OK(moqt.Parameters{}))
		require.NoError(p, <-updated)

		h := moqt.SubgroupHeader{GroupID: 70}
		stream, err := pub.OpenSubgroup(p.Context(), h)
		require.NoError(p, err)
		e := moqt.NewSubgroupEncoder(moqt.DataLayout2, h)
		b, err := e.AppendObject(nil, moqt.ObjectHeader{ObjectID: 100, PayloadLength: 2})
		require.NoError(p, err)
		_, err = stream.Write(append(b, "ab"...))
		require.NoError(p, err)
		require.NoError(p, stream.Close())
		got := <-receiver.subgroups
		require.EqualValues(p, 70, got.header.GroupID)
		require.Equal(p, append(b, "ab"...), got.body)
		datagram := moqt.ObjectDatagram{Location: moqt.Location{Group: 71}, Payload: []byte("x")}
		require.NoError(p, pub.SendDatagram(datagram))
		require.EqualValues(p, 71, (<-receiver.datagrams).Location.Group)
		_, err = pub.OpenSubgroup(p.Context(), moqt.SubgroupHeader{GroupID: 1 << 62})
		require.ErrorContains(p, err, "must be at most")

		require.NoError(p, pub.Done(moqt.DoneTooFarBehind, "slow"))
		<-sub.Context().Done()
		require.ErrorContains(p, context.Cause(sub.Context()), "TOO_FAR_BEHIND: slow")

		// The subscriber ends it.
		sub, err = p.client.Subscribe(p.Context(), moqt.Subscribe{Track: testTrack}, receiver)
		require.NoError(p, err)
		pub = <-p.servers.subscribes
		require.NoError(p, pub.Accept(moqt.Parameters{}, nil))
		_, err = sub.Wait(p.Context())
		require.NoError(p, err)
		sub.Cancel(moqt.ResetCancelled)
		<-pub.Context().Done()
		cancelled, ok2 := errors.AsType[*transport.StreamError](context.Cause(pub.Context()))
		require.True(p, ok2)
		require.True(p, cancelled.Remote)

		// The publisher cancels it, and another one is refused.
		sub, err = p.server.Subscribe(p.Context(), moqt.Subscribe{Track: testTrack}, receiver)
		require.NoError(p, err)
		pub = <-p.clients.subscribes
		require.NoError(p, pub.Accept(moqt.Parameters{}, nil))
		pub.Cancel(moqt.ResetMalformedTrack)
		<-sub.Context().Done()
		require.ErrorContains(p, context.Cause(sub.Context()), "MALFORMED_TRACK")
		sub, err = p.server.Subscribe(p.Context(), moqt.Subscribe{Track: otherTrack}, receiver)
		require.NoError(p, err)
		pub = <-p.clients.subscribes
		require.NoError(p, pub.Reject(refuse(moqt.RequestDoesNotExist, "none")))
		_, err = sub.Wait(p.Context())
		require.ErrorContains(p, err, "none")
	})
}

// TestPublishOfDraft16 publishes in both directions.
func TestPublishOfDraft16(t *testing.T) {
	between(t, func(p *pair16) {
		pub, err := p.client.Publish(p.Context(), moqt.Publish{Track: testTrack})
		require.NoError(p, err)
		sub := <-p.servers.publishes
		require.NoError(p, sub.Accept(moqt.Parameters{
			Forward: new(false), SubscriberPriority: new(uint8(7)),
		}, newCollector()))
		require.NoError(p, pub.Wait(p.Context()))
		require.False(p, pub.Forward())
		require.Equal(p, uint8(7), *pub.Parameters().SubscriberPriority)
		sub.Cancel(moqt.ResetCancelled)
		<-pub.Context().Done()

		pub, err = p.server.TryPublish(moqt.Publish{Track: testTrack})
		require.NoError(p, err)
		sub = <-p.clients.publishes
		pub.AddStreams(1)                                     // which does not come
		require.NoError(p, pub.Done(moqt.DoneTrackEnded, "")) // before the answer
		synctest.Wait()
		require.NoError(p, sub.Accept(moqt.Parameters{}, newCollector()))
		<-sub.Context().Done()
		require.ErrorContains(p, context.Cause(sub.Context()), "TRACK_ENDED")
	})
}

// TestFetchOfDraft16 fetches, joins a subscription, and cancels.
func TestFetchOfDraft16(t *testing.T) {
	between(t, func(p *pair16) {
		sub, err := p.client.Subscribe(p.Context(), moqt.Subscribe{
			Track: testTrack, Parameters: moqt.Parameters{Filter: &moqt.Filter{Type: moqt.FilterLargestObject}},
		}, newCollector())
		require.NoError(p, err)
		fetch, err := p.client.Fetch(p.Context(), moqt.Fetch{
			FetchType: moqt.FetchRelativeJoining, JoiningRequestID: sub.ID(), JoiningStart: 1,
		})
		require.NoError(p, err)
		pub := <-p.servers.subscribes
		require.NoError(p, pub.Accept(moqt.Parameters{LargestObject: &moqt.Location{Group: 5, Object: 6}}, nil))
		in := <-p.servers.fetches
		require.Equal(p, moqt.Range{Start: moqt.Location{Group: 4}, End: moqt.Location{Group: 5, Object: 6}}, in.Range)
		require.NoError(p, in.OK(moqt.FetchOK{End: in.Range.FetchEnd()}))
		stream, err := in.OpenStream(p.Context())
		require.NoError(p, err)
		_, err = stream.Write([]byte("objects"))
		require.NoError(p, err)
		require.NoError(p, stream.Close())
		require.NoError(p, in.Done())
		data, err := fetch.Stream(p.Context())
		require.NoError(p, err)
		b, err := io.ReadAll(data)
		require.NoError(p, err)
		require.Equal(p, "objects", string(b))
		<-fetch.Context().Done()
		require.ErrorIs(p, context.Cause(fetch.Context()), ErrFinished)

		fetch, err = p.client.Fetch(p.Context(), moqt.Fetch{FetchType: moqt.FetchStandalone, Track: otherTrack})
		require.NoError(p, err)
		in = <-p.servers.fetches
		fetch.Cancel(moqt.ResetCancelled)
		<-in.Context().Done()
		require.NoError(p, pub.Done(moqt.DoneTrackEnded, ""))
		<-sub.Context().Done()
	})
}

// TestNamespacesOfDraft16 announces namespaces, subscribes to them and to tracks, and asks for a track's status.
func TestNamespacesOfDraft16(t *testing.T) {
	between(t, func(p *pair16) {
		room := moqt.Namespace{"example", "room"}
		announced, err := p.client.PublishNamespace(p.Context(), moqt.PublishNamespace{Namespace: room})
		require.NoError(p, err)
		in := <-p.servers.namespaces
		require.NoError(p, in.OK())
		require.NoError(p, announced.Wait(p.Context()))
		announced.Cancel(moqt.ResetCancelled)
		<-in.Context().Done()
		announced, err = p.client.PublishNamespace(p.Context(), moqt.PublishNamespace{Namespace: room})
		require.NoError(p, err)
		in = <-p.servers.namespaces
		require.NoError(p, in.OK())
		in.Cancel(moqt.ResetCancelled)
		<-announced.Context().Done()

		changes := make(chan bool, 10)
		names, err := p.client.SubscribeNamespace(p.Context(), moqt.SubscribeNamespace{Prefix: room[:1]},
			func(ns moqt.Namespace, published bool, _ moqt.Parameters) {
				require.Equal(p, room, ns)
				changes <- published
			})
		require.NoError(p, err)
		discover := <-p.servers.discovers
		require.NoError(p, discover.OK())
		require.NoError(p, names.Wait(p.Context()))
		require.NoError(p, discover.Add(room, moqt.Parameters{}))
		require.True(p, <-changes)
		require.NoError(p, discover.Remove(room))
		require.False(p, <-changes)
		require.ErrorIs(p, names.Update(p.Context(), moqt.Parameters{}), errOneControlStream)
		names.Cancel(moqt.ResetCancelled)
		<-discover.Context().Done()

		tracks, err := p.client.SubscribeTracks(p.Context(), moqt.SubscribeTracks{Prefix: room}, nil)
		require.NoError(p, err)
		asked := <-p.servers.tracks
		require.NoError(p, asked.OK())
		require.NoError(p, tracks.Wait(p.Context()))
		require.Error(p, asked.Blocked(testTrack), "draft-16 has no such message")
		tracks.Cancel(moqt.ResetCancelled)
		<-asked.Context().Done()

		status := make(chan *moqt.RequestOK)
		go func() {
			ok, err := p.client.TrackStatus(p.Context(), moqt.TrackStatus{Track: testTrack})
			require.NoError(p, err)
			status <- ok
		}()
		require.NoError(p, (<-p.servers.statuses).OK(moqt.Parameters{LargestObject: &moqt.Location{Group: 7}}, nil))
		require.EqualValues(p, 7, (<-status).Parameters.LargestObject.Group)

		require.NoError(p, p.server.Goaway("moqt://b", 0))
		require.Equal(p, "moqt://b", (<-p.clients.goaways).NewSessionURI)
	})
}

// TestManyRequestsOfDraft16 makes more requests than the peer allows at first, and cancels each before its response.
func TestManyRequestsOfDraft16(t *testing.T) {
	between(t, func(p *pair16) {
		for range 3 * requestWindow {
			sub, err := p.client.Subscribe(p.Context(), moqt.Subscribe{Track: testTrack}, nil)
			require.NoError(p, err)
			sub.Cancel(moqt.ResetCancelled)
			<-(<-p.servers.subscribes).Context().Done()
			time.Sleep(10 * time.Millisecond) // of the bubble's time: not above the rate
		}
		p.client.shared.mu.Lock()
		require.Greater(p, p.client.shared.limit, uint64(6*requestWindow))
		p.client.shared.mu.Unlock()
	})
}

// raw16 is a server of draft-16 whose client the test plays.
type raw16 struct {
	*script
	stream transport.Stream
	reader *moqt.Reader
	h      *handler
}

// client16 runs f with a client whose SETUP, if it is not nil, was exchanged.
func client16(t *testing.T, setup *moqt.Setup, limits Limits, f func(*raw16)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		theirs, ours := transporttest.Pipe(transporttest.PipeConfig{Protocol: moqt.Draft16.ALPN()})
		h := newHandler()
		s, err := New(ours, Config{Role: Server, Handler: h, Logger: slog.New(slog.DiscardHandler), Limits: limits})
		require.NoError(t, err)
		p := &script{T: t, s: s, conn: theirs, run: make(chan error, 1)}
		go func() { p.run <- s.Run(context.Background()) }()
		stream, err := theirs.OpenStream()
		require.NoError(t, err)
		r := &raw16{p, stream, moqt.NewReader(stream, moqt.Draft16), h}
		if setup != nil {
			r.send(0, setup)
			require.True(t, r.receive().(*moqt.Setup).Server)
			<-s.Ready()
		}
		f(r)
		s.Close(moqt.SessionNoError, "")
		<-s.Context().Done()
	})
}

func (r *raw16) send(request uint64, messages ...moqt.Message) {
	r.Helper()
	for _, m := range messages {
		b, err := moqt.AppendMessageTo(nil, moqt.Draft16, moqt.Reference{RequestID: request}, m)
		require.NoError(r, err)
		r.write(r.stream, b)
	}
}

func (r *raw16) receive() moqt.Message {
	r.Helper()
	m, err := r.reader.Read()
	require.NoError(r, err)
	return m
}

// TestHostileClientOfDraft16 has mistakes that close a session.
func TestHostileClientOfDraft16(t *testing.T) {
	subscribe := func(id uint64) *moqt.Subscribe { return &moqt.Subscribe{RequestID: id, Track: testTrack} }
	namespace := &moqt.PublishNamespace{Namespace: moqt.Namespace{"a"}}
	for name, tc := range map[string]struct {
		code moqt.SessionErrorCode
		play func(*raw16)
	}{
		"second control stream": {moqt.SessionProtocolViolation, func(r *raw16) { r.raw(r.encode(&moqt.Setup{})) }},
		"second SETUP":          {moqt.SessionProtocolViolation, func(r *raw16) { r.send(0, &moqt.Setup{}) }},
		"request on its own stream": {moqt.SessionProtocolViolation, func(r *raw16) {
			r.raw(r.encode(subscribe(0)))
		}},
		"SUBSCRIBE_NAMESPACE on the control stream": {moqt.SessionProtocolViolation, func(r *raw16) {
			r.send(0, &moqt.SubscribeNamespace{})
		}},
		"NAMESPACE on the control stream": {moqt.SessionProtocolViolation, func(r *raw16) {
			r.send(0, &moqt.NamespaceAdded{})
		}},
		"id above the maximum": {moqt.SessionTooManyRequests, func(r *raw16) {
			r.send(0, subscribe(2*requestWindow))
		}},
		"id above the maximum on a stream": {moqt.SessionTooManyRequests, func(r *raw16) {
			r.raw(r.encode(&moqt.SubscribeTracks{RequestID: 2 * requestWindow}))
		}},
		"id of the server": {moqt.SessionInvalidRequestID, func(r *raw16) { r.send(0, subscribe(1)) }},
		"id twice": {moqt.SessionInvalidRequestID, func(r *raw16) {
			r.send(0, subscribe(2), &moqt.Subscribe{RequestID: 2, Track: otherTrack})
		}},
		"id of an update twice": {moqt.SessionInvalidRequestID, func(r *raw16) {
			r.send(0, subscribe(0))
			require.NoError(r, (<-r.h.subscribes).Accept(moqt.Parameters{}, nil))
			r.send(0, &moqt.RequestUpdate{RequestID: 0})
		}},
		"MAX_REQUEST_ID that does not increase": {moqt.SessionProtocolViolation, func(r *raw16) {
			r.send(0, &moqt.MaxRequestID{Max: 100})
		}},
		"update of no request": {moqt.SessionProtocolViolation, func(r *raw16) {
			r.send(8, &moqt.RequestUpdate{RequestID: 0})
		}},
		"response to no request": {moqt.SessionProtocolViolation, func(r *raw16) {
			r.send(1, &moqt.SubscribeOK{})
		}},
		"UNSUBSCRIBE of no request": {moqt.SessionProtocolViolation, func(r *raw16) { r.send(0, &moqt.Unsubscribe{}) }},
		"UNSUBSCRIBE of a namespace": {moqt.SessionProtocolViolation, func(r *raw16) {
			r.send(0, namespace, &moqt.Unsubscribe{})
		}},
		"FETCH_CANCEL of a subscription": {moqt.SessionProtocolViolation, func(r *raw16) {
			r.send(0, subscribe(0), &moqt.FetchCancel{})
		}},
		"response to its own request": {moqt.SessionProtocolViolation, func(r *raw16) {
			r.send(0, subscribe(0), &moqt.SubscribeOK{})
		}},
		"closed control stream": {moqt.SessionProtocolViolation, func(r *raw16) {
			require.NoError(r, r.stream.Close())
		}},
		"control stream that is not read": {moqt.SessionProtocolViolation, func(r *raw16) {
			r.stream.CancelRead(0)
			r.send(0, subscribe(0))
			(<-r.h.subscribes).Cancel(moqt.ResetCancelled)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			client16(t, &moqt.Setup{MaxRequestID: 100}, Limits{}, func(r *raw16) {
				tc.play(r)
				r.requireClosed(tc.code)
			})
		})
	}
	for name, first := range map[string]moqt.Message{
		"SERVER_SETUP of a client": &moqt.Setup{Server: true}, "request before SETUP": subscribe(0),
		"GOAWAY before SETUP": &moqt.Goaway{},
	} {
		t.Run(name, func(t *testing.T) {
			client16(t, nil, Limits{}, func(r *raw16) {
				r.send(0, first)
				r.requireClosed(moqt.SessionProtocolViolation)
			})
		})
	}
}

// TestToleratedOfDraft16 has mistakes that end only the request, and messages that are no mistake.
func TestToleratedOfDraft16(t *testing.T) {
	limits := Limits{MaxSubscriptions: 1}
	client16(t, &moqt.Setup{MaxRequestID: 2}, limits, func(r *raw16) {
		r.send(0, &moqt.RequestsBlocked{Max: 2000}, &moqt.Subscribe{RequestID: 0, Track: testTrack})
		pub := <-r.h.subscribes
		require.NoError(r, pub.Accept(moqt.Parameters{}, nil))
		r.receive()
		r.send(2, &moqt.Subscribe{RequestID: 2, Track: otherTrack}) // more than may be open
		require.Equal(r, moqt.RequestInternalError, r.receive().(*moqt.RequestError).Code)
		require.EqualValues(r, 2, r.reader.Reference().RequestID)

		r.send(0, &moqt.Unsubscribe{}, &moqt.Unsubscribe{}, &moqt.RequestUpdate{RequestID: 4})
		require.Equal(r, moqt.RequestDoesNotExist, r.receive().(*moqt.RequestError).Code)
		require.EqualValues(r, 4, r.reader.Reference().RequestID)
		<-pub.Context().Done()

		// A malformed track ends its request only.
		r.write(r.stream, []byte{byte(moqt.MessagePublish), 0, 10, 6, 0, 0, 0, 0, 0x0b, 2, 4, 0x40, 0}[:12])
		r.write(r.stream, []byte{0x40})
		require.Equal(r, moqt.RequestMalformedTrack, r.receive().(*moqt.RequestError).Code)
		require.EqualValues(r, 6, r.reader.Reference().RequestID)

		// Namespaces and tracks in one request.
		e := r.raw([]byte{0x11, 0, 4, 8, 0, 2, 0})
		e.requireRefused(moqt.RequestNotSupported)
		r.requireOpen()

		// The session waits for the right to make a second request.
		_, err := r.s.TryPublish(moqt.Publish{Track: testTrack})
		require.NoError(r, err)
		require.IsType(r, &moqt.Publish{}, r.receive())
		_, err = r.s.TryPublish(moqt.Publish{Track: otherTrack})
		require.ErrorIs(r, err, transport.ErrStreamLimit)
		go r.s.Publish(r.Context(), moqt.Publish{Track: otherTrack})
		r.send(0, &moqt.MaxRequestID{Max: 4})
		require.EqualValues(r, 3, r.receive().(*moqt.Publish).RequestID)
	})
}

// TestUpdatesOfDraft16 sends more updates than may be without a response. They wait, and only this session's control
// stream does.
func TestUpdatesOfDraft16(t *testing.T) {
	client16(t, &moqt.Setup{}, Limits{RequestRate: 1, RequestBurst: 1}, func(r *raw16) {
		r.send(0, &moqt.Subscribe{RequestID: 0, Track: testTrack})
		pub := <-r.h.subscribes
		require.NoError(r, pub.Accept(moqt.Parameters{}, nil))
		r.receive()
		for i := range uint64(200) {
			r.send(0, &moqt.RequestUpdate{RequestID: 2 + 2*i})
		}
		synctest.Wait()
		r.s.shared.mu.Lock()
		waiting := len(r.s.shared.streams[0].inbox)
		r.s.shared.mu.Unlock()
		require.Equal(r, maxSharedInbox, waiting)
		done := r.receive().(*moqt.PublishDone) // after the time that the rate asks for
		require.Equal(r, moqt.DoneTooFarBehind, done.Status)
		<-pub.Context().Done()
	})
}

// TestOrderOfDraft16 checks that messages take effect in the order of the control stream.
func TestOrderOfDraft16(t *testing.T) {
	withTokens := func(tokens ...moqt.Token) moqt.Parameters { return moqt.Parameters{AuthorizationTokens: tokens} }
	for name, play := range map[string]func(*raw16){
		"a token is used after its registration": func(r *raw16) {
			r.send(0, &moqt.Subscribe{RequestID: 0, Track: testTrack, Parameters: withTokens(register(1, "one"))},
				&moqt.Subscribe{RequestID: 2, Track: otherTrack, Parameters: withTokens(useAlias(1))})
			for range 2 {
				require.Equal(r, "one", string((<-r.h.subscribes).Tokens()[0].Value))
			}
		},
		"a token is used after its registration in an update": func(r *raw16) {
			r.send(0, &moqt.Subscribe{RequestID: 0, Track: testTrack})
			first := <-r.h.subscribes
			r.send(0, &moqt.RequestUpdate{RequestID: 2, Parameters: withTokens(register(1, "one"))},
				&moqt.Subscribe{RequestID: 4, Track: otherTrack, Parameters: withTokens(useAlias(1))})
			require.Equal(r, "one", string((<-r.h.subscribes).Tokens()[0].Value))
			require.Equal(r, "one", string((<-first.Updates()).Tokens[0].Value))
		},
		"PUBLISH after PUBLISH_DONE": func(r *raw16) {
			r.send(0, &moqt.Publish{RequestID: 0, Track: testTrack, TrackAlias: 1})
			require.NoError(r, (<-r.h.publishes).Accept(moqt.Parameters{}, nil))
			r.receive()
			r.send(0, &moqt.PublishDone{}, &moqt.Publish{RequestID: 2, Track: testTrack, TrackAlias: 2})
			require.EqualValues(r, 2, (<-r.h.publishes).ID())
		},
		"SUBSCRIBE after UNSUBSCRIBE": func(r *raw16) {
			r.send(0, &moqt.Subscribe{RequestID: 0, Track: testTrack}, &moqt.Unsubscribe{},
				&moqt.Subscribe{RequestID: 2, Track: testTrack})
			got := []uint64{(<-r.h.subscribes).ID(), (<-r.h.subscribes).ID()}
			require.ElementsMatch(r, []uint64{0, 2}, got)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // the order of goroutines is a matter of chance
				client16(t, &moqt.Setup{MaxRequestID: 100}, Limits{MaxAuthTokenCacheSize: 400}, play)
			}
		})
	}
}

// TestAnsweredUpdatesOfDraft16 checks that a request that is updated often does not grow.
func TestAnsweredUpdatesOfDraft16(t *testing.T) {
	between(t, func(p *pair16) {
		sub, err := p.client.Subscribe(p.Context(), moqt.Subscribe{Track: testTrack}, nil)
		require.NoError(p, err)
		pub := <-p.servers.subscribes
		require.NoError(p, pub.Accept(moqt.Parameters{}, nil))
		go func() {
			for range 50 {
				_ = (<-pub.Updates()).OK(moqt.Parameters{})
			}
		}()
		for range 50 {
			_, err := sub.Update(p.Context(), moqt.Parameters{SubscriberPriority: new(uint8(7))})
			require.NoError(p, err)
		}
		p.client.shared.mu.Lock()
		require.Empty(p, sub.out.(*sharedStream).updates)
		p.client.shared.mu.Unlock()
		sub.Cancel(moqt.ResetCancelled)
		<-pub.Context().Done()
	})
}

// TestMalformedTrackOfDraft16 repeats a message that makes a track malformed while its request is busy. That ends the
// request once, and nothing piles up.
func TestMalformedTrackOfDraft16(t *testing.T) {
	client16(t, &moqt.Setup{MaxRequestID: 100}, Limits{RequestRate: 1, RequestBurst: 1}, func(r *raw16) {
		pub, err := r.s.TryPublish(moqt.Publish{Track: testTrack})
		require.NoError(r, err)
		require.IsType(r, &moqt.Publish{}, r.receive())
		stream := r.s.shared.stream(pub.ID())
		r.send(pub.ID(), &moqt.RequestOK{})
		for i := range uint64(4) {
			r.send(pub.ID(), &moqt.RequestUpdate{RequestID: 2 * i}) // each takes a second
		}
		for range 100 {
			r.write(r.stream, []byte{byte(moqt.MessageSubscribeOK), 0, 7, byte(pub.ID()), 1, 0, 0x0b, 2, 4, 0x40})
		}
		synctest.Wait()
		r.s.shared.mu.Lock()
		waiting := len(stream.inbox)
		r.s.shared.mu.Unlock()
		require.LessOrEqual(r, waiting, 4)
		require.Equal(r, moqt.DoneMalformedTrack, r.receive().(*moqt.PublishDone).Status)
		<-pub.Context().Done()
		synctest.Wait()
		r.requireOpen()
	})
}

// TestExpiredTokensOfDraft16 checks what the peer is told when a request ends because its token has expired.
func TestExpiredTokensOfDraft16(t *testing.T) {
	client16(t, &moqt.Setup{}, Limits{}, func(r *raw16) {
		r.send(0, &moqt.PublishNamespace{RequestID: 0, Namespace: moqt.Namespace{"a"}})
		ns := <-r.h.namespaces
		require.NoError(r, ns.OK())
		require.IsType(r, &moqt.RequestOK{}, r.receive())
		ns.Cancel(moqt.ResetExpiredAuthToken)
		require.Equal(r, &moqt.NamespaceRevoked{Code: moqt.RequestExpiredAuthToken}, r.receive())

		r.send(2, &moqt.Subscribe{RequestID: 2, Track: testTrack})
		(<-r.h.subscribes).Cancel(moqt.ResetExpiredAuthToken)
		require.Equal(r, moqt.RequestExpiredAuthToken, r.receive().(*moqt.RequestError).Code)
	})
}
