package session

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/transport"
)

// allRequests returns one request of each type in a namespace.
func allRequests(ns moqt.Namespace) map[string]moqt.Message {
	track := moqt.FullTrackName{Namespace: ns, Name: "x"}
	return map[string]moqt.Message{
		"SUBSCRIBE":           &moqt.Subscribe{Track: track},
		"PUBLISH":             &moqt.Publish{Track: track},
		"FETCH":               &moqt.Fetch{FetchType: moqt.FetchStandalone, Track: track},
		"TRACK_STATUS":        &moqt.TrackStatus{Track: track},
		"PUBLISH_NAMESPACE":   &moqt.PublishNamespace{Namespace: ns},
		"SUBSCRIBE_NAMESPACE": &moqt.SubscribeNamespace{Prefix: ns},
		"SUBSCRIBE_TRACKS":    &moqt.SubscribeTracks{Prefix: ns},
	}
}

// asked returns how many requests have reached the application.
func (h *handler) asked() int {
	return len(h.subscribes) + len(h.publishes) + len(h.fetches) + len(h.statuses) + len(h.namespaces) +
		len(h.discovers) + len(h.tracks)
}

func TestReservedNamespaces(t *testing.T) {
	for _, ns := range []moqt.Namespace{{"."}, {".", "x"}, {".session"}, {".session", "x"}} {
		for name, m := range allRequests(ns) {
			t.Run(name+" "+ns.String(), func(t *testing.T) {
				serve(t, func(p *script, h *handler) {
					p.request(m).requireRefused(moqt.RequestDoesNotExist)
					require.Zero(p, h.asked())
				})
			})
		}
	}
	for _, ns := range []moqt.Namespace{{".other"}, {"a", "."}, {".sessions"}} {
		for name, m := range allRequests(ns) {
			t.Run(name+" "+ns.String(), func(t *testing.T) {
				serve(t, func(p *script, h *handler) {
					p.request(m)
					p.requireOpen()
					require.Equal(p, 1, h.asked())
				})
			})
		}
	}
}

func TestRefusals(t *testing.T) {
	token := moqt.Token{AliasType: moqt.AliasUseValue, Type: 1, Value: []byte("x")}
	mandatory, err := moqt.NewProperties(moqt.KeyValuePair{Type: 0x4000, Value: 1})
	require.NoError(t, err)
	fetch := func(typ moqt.FetchType, id uint64) *moqt.Fetch {
		return &moqt.Fetch{FetchType: typ, JoiningRequestID: id}
	}
	for _, tc := range []struct {
		name  string
		first moqt.Message // of request 0
		m     moqt.Message
		want  moqt.RequestErrorCode
	}{
		{"second subscription", &moqt.Subscribe{Track: testTrack}, &moqt.Subscribe{Track: testTrack},
			moqt.RequestDuplicateSubscription},
		{"second publication", &moqt.Publish{Track: testTrack}, &moqt.Publish{Track: testTrack},
			moqt.RequestDuplicateSubscription},
		{
			"mandatory track property", nil, &moqt.Publish{Track: testTrack, Properties: mandatory},
			moqt.RequestUnsupportedExtension,
		},
		{
			"token twice", nil,
			&moqt.Subscribe{Track: testTrack,
				Parameters: moqt.Parameters{AuthorizationTokens: []moqt.Token{token, token}}},
			moqt.RequestMalformedAuthToken,
		},
		{
			"token twice, once by its alias", nil,
			&moqt.Subscribe{Track: testTrack, Parameters: moqt.Parameters{AuthorizationTokens: []moqt.Token{
				{AliasType: moqt.AliasRegister, Alias: 1, Type: 1, Value: []byte("x")},
				{AliasType: moqt.AliasUse, Alias: 1},
			}}}, moqt.RequestMalformedAuthToken,
		},
		{
			"fetch that ends before its start", nil,
			&moqt.Fetch{
				FetchType: moqt.FetchStandalone, Track: testTrack,
				Start: moqt.Location{Group: 2, Object: 5}, End: moqt.Location{Group: 2, Object: 5},
			}, moqt.RequestInvalidRange,
		},
		{"joining a request of the publisher", nil, fetch(moqt.FetchAbsoluteJoining, 1),
			moqt.RequestInvalidJoiningRequestID},
		{
			"joining another request", &moqt.SubscribeNamespace{}, fetch(moqt.FetchAbsoluteJoining, 0),
			moqt.RequestInvalidJoiningRequestID,
		},
		{"joining itself", nil, fetch(moqt.FetchAbsoluteJoining, 0), moqt.RequestInvalidJoiningRequestID},
	} {
		t.Run(tc.name, func(t *testing.T) {
			serve(t, func(p *script, h *handler) {
				before := 0
				if tc.first != nil {
					p.request(tc.first)
					p.requireOpen()
					before = h.asked()
				}
				p.request(tc.m).requireRefused(tc.want)
				require.Equal(p, before, h.asked())
				p.requireOpen()
			})
		})
	}
}

func TestPrefixesThatDoNotOverlap(t *testing.T) {
	serve(t, func(p *script, h *handler) {
		p.request(&moqt.SubscribeNamespace{Prefix: moqt.Namespace{"a", "b"}})
		p.request(&moqt.SubscribeNamespace{Prefix: moqt.Namespace{"a", "c"}})
		p.request(&moqt.SubscribeTracks{Prefix: moqt.Namespace{"a"}}) // overlaps only with other SUBSCRIBE_TRACKS
		e := p.request(&moqt.SubscribeNamespace{Prefix: moqt.Namespace{"d"}})
		p.requireOpen()
		require.Equal(p, 4, h.asked())
		require.NoError(p, e.Close()) // FIN cancels
		p.requireOpen()
		p.request(&moqt.SubscribeNamespace{Prefix: moqt.Namespace{"d", "e"}})
		p.requireOpen()
		require.Equal(p, 5, h.asked())
	})
}

func TestLimitsOfOpenRequests(t *testing.T) {
	cfg := Config{Role: Server, Limits: Limits{MaxSubscriptions: 2, MaxFetches: 2, MaxNamespaces: 2}}
	for _, tc := range []struct {
		name string
		m    func(i string) moqt.Message
	}{
		{"SUBSCRIBE", func(i string) moqt.Message { return &moqt.Subscribe{Track: moqt.FullTrackName{Name: i}} }},
		{"PUBLISH", func(i string) moqt.Message {
			return &moqt.Publish{Track: moqt.FullTrackName{Name: i}, TrackAlias: uint64(i[0])}
		}},
		{"FETCH", func(string) moqt.Message { return &moqt.Fetch{FetchType: moqt.FetchStandalone} }},
		{"TRACK_STATUS", func(string) moqt.Message { return &moqt.TrackStatus{} }},
		{"PUBLISH_NAMESPACE", func(i string) moqt.Message {
			return &moqt.PublishNamespace{Namespace: moqt.Namespace{i}}
		}},
		{"SUBSCRIBE_NAMESPACE", func(i string) moqt.Message {
			return &moqt.SubscribeNamespace{Prefix: moqt.Namespace{i}}
		}},
		{"SUBSCRIBE_TRACKS", func(i string) moqt.Message { return &moqt.SubscribeTracks{Prefix: moqt.Namespace{i}} }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg.Handler = newHandler()
			play(t, setting{cfg: cfg}, func(p *script) {
				first := p.request(tc.m("a"))
				p.request(tc.m("b"))
				p.requireOpen()
				e := p.request(tc.m("c")).requireRefused(moqt.RequestExcessiveLoad)
				require.EqualValues(p, 1001, e.RetryInterval)
				first.CancelWrite(uint64(moqt.ResetCancelled)) // makes room
				p.requireOpen()
				p.request(tc.m("d"))
				p.requireOpen()
				require.Equal(p, 3, cfg.Handler.(*handler).asked())
			})
		})
	}
}

// turnstile is a Pacer that lets some requests through, and updates when it is opened.
type turnstile struct {
	requests int
	open     chan struct{}
}

func (p *turnstile) Allow() bool {
	p.requests--
	return p.requests >= 0
}

func (p *turnstile) Wait(ctx context.Context) error {
	select {
	case <-p.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestPacer(t *testing.T) {
	pacer := &turnstile{requests: 2}
	h := newHandler()
	cfg := Config{Role: Server, Handler: h, Limits: Limits{Pacer: pacer}}
	play(t, setting{cfg: cfg}, func(p *script) {
		pacer.open = make(chan struct{}) // in the test's bubble
		p.request(&moqt.TrackStatus{})
		s := p.request(&moqt.Subscribe{})
		p.requireOpen()
		require.Equal(p, 2, h.asked())
		p.request(&moqt.TrackStatus{}).requireRefused(moqt.RequestExcessiveLoad)
		pub := <-h.subscribes
		require.NoError(p, pub.Accept(moqt.Parameters{}, nil))
		s.update(moqt.Parameters{})
		p.requireOpen()
		require.Empty(p, pub.Updates())
		close(pacer.open)
		p.requireOpen()
		require.Len(p, pub.Updates(), 1)
	})
}

func TestLimitOfTheRequestRate(t *testing.T) {
	h := newHandler()
	cfg := Config{Role: Server, Handler: h, Limits: Limits{RequestRate: 1, RequestBurst: 3}}
	play(t, setting{cfg: cfg}, func(p *script) {
		for range 3 {
			p.request(&moqt.TrackStatus{})
		}
		p.requireOpen()
		require.Equal(p, 3, h.asked())
		p.request(&moqt.TrackStatus{}).requireRefused(moqt.RequestExcessiveLoad)
		time.Sleep(time.Second)
		p.request(&moqt.TrackStatus{})
		p.requireOpen()
		require.Equal(p, 4, h.asked())
	})

	// A peer that goes on is served at ten times the rate, and not faster.
	cfg.Handler = Unsupported{}
	play(t, setting{cfg: cfg}, func(p *script) {
		started := time.Now()
		for range 100 {
			p.request(&moqt.TrackStatus{}).receive()
		}
		require.Greater(p, time.Since(started), 6*time.Second)
		p.requireOpen()
	})
}

// TestLastMessageAfterStopSending has a responder that stops reading a request before its last message arrives.
func TestLastMessageAfterStopSending(t *testing.T) {
	play(t, setting{}, func(p *script) {
		sub, e := p.subscribe(testTrack, newCollector())
		e.CancelRead(0)
		time.Sleep(time.Millisecond)
		e.send(&moqt.RequestError{Code: moqt.RequestDoesNotExist})
		_, err := sub.Wait(p.Context())
		refused, _ := errors.AsType[*moqt.RequestError](err)
		require.Equal(p, &moqt.RequestError{Code: moqt.RequestDoesNotExist}, refused)

		sub, e = p.subscribed(otherTrack, 7, newCollector())
		e.CancelRead(0)
		time.Sleep(time.Millisecond)
		e.send(&moqt.PublishDone{Status: moqt.DoneTrackEnded})
		<-sub.Context().Done()
		require.IsType(p, &DoneError{}, context.Cause(sub.Context()))

		pub, err := p.s.Publish(p.Context(), moqt.Publish{Track: testTrack})
		require.NoError(p, err)
		e = p.accept()
		e.receive()
		e.CancelRead(0)
		time.Sleep(time.Millisecond)
		require.NoError(p, pub.Context().Err(), "its response may come")
		<-pub.Context().Done()
		require.Equal(p, &transport.StreamError{Remote: true}, context.Cause(pub.Context()))
	})
}

// TestFetchAfterStopSending has a publisher that stops reading a FETCH when it has accepted it. The objects come later.
func TestFetchAfterStopSending(t *testing.T) {
	play(t, setting{}, func(p *script) {
		f, err := p.s.Fetch(p.Context(), moqt.Fetch{FetchType: moqt.FetchStandalone, Track: testTrack})
		require.NoError(p, err)
		e := p.accept()
		e.send(&moqt.FetchOK{End: moqt.Location{Group: 9}})
		e.CancelRead(0)
		time.Sleep(time.Minute)
		require.NoError(p, p.uni(append(fetchHeader(0), "late"...)).Close())
		stream, err := f.Stream(p.Context())
		require.NoError(p, err)
		b, err := io.ReadAll(stream)
		require.NoError(p, err)
		require.Equal(p, "late", string(b))
	})
}
