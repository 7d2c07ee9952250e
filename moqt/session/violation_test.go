package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

// TestRequestsThatEndTheSession plays peers that break a rule of requests. The session under test is the server. Which
// message may be where is tested by package moqt: TestContextViolations.
func TestRequestsThatEndTheSession(t *testing.T) {
	value := func(s string) moqt.Token { return moqt.Token{AliasType: moqt.AliasUseValue, Value: []byte(s)} }
	register := func(alias uint64, s string) moqt.Token {
		return moqt.Token{AliasType: moqt.AliasRegister, Alias: alias, Value: []byte(s)}
	}
	subscribe := func(tokens ...moqt.Token) *moqt.Subscribe {
		return &moqt.Subscribe{Track: testTrack, Parameters: moqt.Parameters{AuthorizationTokens: tokens}}
	}
	for _, tc := range []struct {
		name string
		do   func(*script)
		want moqt.SessionErrorCode
	}{
		{"update with a used id after the request was refused", func(p *script) {
			e := p.request(subscribe())
			e.receive()
			e.send(&moqt.RequestUpdate{RequestID: 0})
		}, moqt.SessionInvalidRequestID},
		{"SETUP as a request", func(p *script) { p.raw(p.encode(&moqt.Setup{})) }, moqt.SessionProtocolViolation},
		{"unknown message", func(p *script) { p.raw([]byte{0x3e, 0, 0}) }, moqt.SessionProtocolViolation},
		{"FIN within a message", func(p *script) {
			require.NoError(p, p.raw(p.encode(subscribe())[:9]).Close())
		}, moqt.SessionProtocolViolation},
		{"message that is never completed", func(p *script) {
			p.raw(p.encode(subscribe())[:9])
		}, moqt.SessionControlMessageTimeout},
		{"later message that is never completed", func(p *script) {
			p.write(p.request(subscribe()), []byte{byte(moqt.MessageRequestUpdate), 0})
		}, moqt.SessionControlMessageTimeout},
		{"GOAWAY on TRACK_STATUS", func(p *script) {
			p.request(&moqt.TrackStatus{Track: testTrack}).send(&moqt.Goaway{})
		}, moqt.SessionProtocolViolation},
		{"response to a request of one's own", func(p *script) {
			p.request(&moqt.PublishNamespace{Namespace: moqt.Namespace{"a"}}).send(&moqt.RequestOK{})
		}, moqt.SessionProtocolViolation},
		{"response to no update", func(p *script) {
			p.request(&moqt.Publish{Track: testTrack}).send(&moqt.RequestOK{})
		}, moqt.SessionProtocolViolation},
		{"message after PUBLISH_DONE", func(p *script) {
			p.request(&moqt.Publish{Track: testTrack}).send(&moqt.PublishDone{}, &moqt.Goaway{})
		}, moqt.SessionProtocolViolation},
		{"update with a parameter of another request", func(p *script) {
			p.request(&moqt.Fetch{FetchType: moqt.FetchStandalone, Track: testTrack}).
				update(moqt.Parameters{Forward: new(true)})
		}, moqt.SessionProtocolViolation},
		{"track alias of two tracks in a PUBLISH that is refused", func(p *script) {
			p.request(&moqt.Publish{Track: testTrack, TrackAlias: 1})
			time.Sleep(time.Millisecond)
			require.NoError(p, p.s.Goaway("", 0))
			p.request(&moqt.Publish{Track: otherTrack, TrackAlias: 1})
		}, moqt.SessionDuplicateTrackAlias},
		{"token alias that was deleted", func(p *script) {
			p.request(subscribe(register(1, "a"), moqt.Token{AliasType: moqt.AliasDelete, Alias: 1},
				moqt.Token{AliasType: moqt.AliasUse, Alias: 1}))
		}, moqt.SessionUnknownAuthTokenAlias},
		{"token alias registered twice", func(p *script) {
			p.request(subscribe(register(1, "a"), register(1, "b")))
		}, moqt.SessionDuplicateAuthTokenAlias},
		{"token alias registered by a request that was refused", func(p *script) {
			e := p.request(&moqt.Subscribe{
				Track:      moqt.FullTrackName{Namespace: moqt.Namespace{"."}, Name: "x"},
				Parameters: moqt.Parameters{AuthorizationTokens: []moqt.Token{register(1, "a")}},
			})
			e.receive()
			p.request(subscribe(register(1, "b")))
		}, moqt.SessionDuplicateAuthTokenAlias},
		{"token alias registered by an update that came too late", func(p *script) {
			e := p.request(&moqt.Subscribe{Track: moqt.FullTrackName{Namespace: moqt.Namespace{"."}, Name: "x"}})
			e.receive()
			e.update(moqt.Parameters{AuthorizationTokens: []moqt.Token{register(1, "a")}})
			time.Sleep(time.Millisecond)
			p.request(subscribe(register(1, "b")))
		}, moqt.SessionDuplicateAuthTokenAlias},
		{"tokens too many for the cache", func(p *script) {
			p.request(subscribe(value("free"), register(1, string(make([]byte, 60))), register(2, "123456789")))
		}, moqt.SessionAuthTokenCacheOverflow},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := Config{Role: Server, Handler: newHandler(), Limits: Limits{MaxAuthTokenCacheSize: 100}}
			if tc.name == "update with a used id after the request was refused" {
				cfg.Handler = Unsupported{}
			}
			play(t, setting{cfg: cfg}, func(p *script) {
				tc.do(p)
				p.requireClosed(tc.want)
			})
		})
	}
}

// TestResponsesThatEndTheSession plays peers that break a rule of responses.
func TestResponsesThatEndTheSession(t *testing.T) {
	discard := func(moqt.Namespace, bool, moqt.Parameters) {}
	subscribe := func(p *script) *exchange {
		_, e := p.subscribe(testTrack, newCollector())
		return e
	}
	publish := func(p *script) *exchange {
		_, err := p.s.Publish(p.Context(), moqt.Publish{Track: testTrack})
		require.NoError(p, err)
		return p.accept()
	}
	fetch := func(typ moqt.FetchType) func(p *script) *exchange {
		return func(p *script) *exchange {
			_, err := p.s.Fetch(p.Context(), moqt.Fetch{
				FetchType: typ, Track: testTrack,
				Start: moqt.Location{Group: 5, Object: 3}, End: moqt.Location{Group: 9},
				JoiningStart: 5,
			})
			require.NoError(p, err)
			return p.accept()
		}
	}
	subscribeNamespace := func(p *script) *exchange {
		_, err := p.s.SubscribeNamespace(p.Context(), moqt.SubscribeNamespace{}, discard)
		require.NoError(p, err)
		return p.accept()
	}
	subscribeTracks := func(p *script) *exchange {
		_, err := p.s.SubscribeTracks(p.Context(), moqt.SubscribeTracks{}, func(moqt.FullTrackName) {})
		require.NoError(p, err)
		return p.accept()
	}
	trackStatus := func(p *script) *exchange {
		go func() { _, _ = p.s.TrackStatus(p.Context(), moqt.TrackStatus{Track: testTrack}) }()
		return p.accept()
	}
	suffix := moqt.Namespace{"b"}
	for _, tc := range []struct {
		name     string
		role     Role
		request  func(*script) *exchange
		response []moqt.Message
	}{
		{"second SUBSCRIBE_OK", Client, subscribe, []moqt.Message{&moqt.SubscribeOK{}, &moqt.SubscribeOK{}}},
		{"error after SUBSCRIBE_OK", Client, subscribe, []moqt.Message{&moqt.SubscribeOK{}, &moqt.RequestError{}}},
		{"second REQUEST_ERROR", Client, subscribe, []moqt.Message{&moqt.RequestError{}, &moqt.RequestError{}}},
		{"PUBLISH_DONE first", Client, subscribe, []moqt.Message{&moqt.PublishDone{}}},
		{"GOAWAY first", Client, subscribe, []moqt.Message{&moqt.Goaway{}}},
		{"message after PUBLISH_DONE", Client, subscribe, []moqt.Message{
			&moqt.SubscribeOK{}, &moqt.PublishDone{}, &moqt.PublishDone{},
		}},
		{"second PUBLISH_OK", Client, publish, []moqt.Message{&moqt.RequestOK{}, &moqt.RequestOK{}}},
		{"update before PUBLISH_OK", Client, publish, []moqt.Message{&moqt.RequestUpdate{RequestID: 1}}},
		{"LARGEST_OBJECT in PUBLISH_OK", Client, publish, []moqt.Message{
			&moqt.RequestOK{Parameters: moqt.Parameters{LargestObject: &moqt.Location{}}},
		}},
		{"FETCH_OK that ends at an earlier object", Client, fetch(moqt.FetchStandalone), []moqt.Message{
			&moqt.FetchOK{End: moqt.Location{Group: 5, Object: 2}},
		}},
		{"FETCH_OK that ends before an absolute start", Client, fetch(moqt.FetchAbsoluteJoining), []moqt.Message{
			&moqt.FetchOK{End: moqt.Location{Group: 4, Object: 9}},
		}},
		{"NAMESPACE first", Client, subscribeNamespace, []moqt.Message{&moqt.NamespaceAdded{Suffix: suffix}}},
		{"NAMESPACE_DONE without NAMESPACE", Client, subscribeNamespace, []moqt.Message{
			&moqt.RequestOK{}, &moqt.NamespaceDone{Suffix: suffix},
		}},
		{"NAMESPACE_DONE twice", Client, subscribeNamespace, []moqt.Message{
			&moqt.RequestOK{}, &moqt.NamespaceAdded{Suffix: suffix},
			&moqt.NamespaceDone{Suffix: suffix}, &moqt.NamespaceDone{Suffix: suffix},
		}},
		{"PUBLISH_BLOCKED first", Client, subscribeTracks, []moqt.Message{&moqt.PublishBlocked{Suffix: suffix}}},
		{"second TRACK_STATUS_OK", Client, trackStatus, []moqt.Message{&moqt.RequestOK{}, &moqt.RequestOK{}}},
		{"second GOAWAY", Client, subscribe, []moqt.Message{&moqt.SubscribeOK{}, &moqt.Goaway{}, &moqt.Goaway{}}},
		{"GOAWAY of a client with a URI", Server, subscribe, []moqt.Message{
			&moqt.SubscribeOK{}, &moqt.Goaway{NewSessionURI: "moqt://elsewhere"},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			play(t, setting{cfg: Config{Role: tc.role}}, func(p *script) {
				tc.request(p).send(tc.response...)
				p.requireClosed(moqt.SessionProtocolViolation)
			})
		})
	}
}

func TestNamespacesThatGrowTooLong(t *testing.T) {
	long := make(moqt.Namespace, moqt.MaxNamespaceFields)
	for i := range long {
		long[i] = "x"
	}
	play(t, setting{}, func(p *script) {
		_, err := p.s.SubscribeNamespace(p.Context(), moqt.SubscribeNamespace{Prefix: moqt.Namespace{"a"}}, nil)
		require.NoError(p, err)
		p.accept().send(&moqt.RequestOK{}, &moqt.NamespaceAdded{Suffix: long})
		p.requireClosed(moqt.SessionProtocolViolation)
	})
	play(t, setting{}, func(p *script) {
		_, err := p.s.SubscribeTracks(p.Context(), moqt.SubscribeTracks{Prefix: moqt.Namespace{"a"}}, nil)
		require.NoError(p, err)
		p.accept().send(&moqt.RequestOK{}, &moqt.PublishBlocked{Suffix: long})
		p.requireClosed(moqt.SessionProtocolViolation)
	})
}

func TestGoawayTimeout(t *testing.T) {
	play(t, setting{cfg: Config{Role: Server, Handler: newHandler()}}, func(p *script) {
		p.request(&moqt.Subscribe{Track: testTrack})
		time.Sleep(time.Millisecond)
		require.NoError(p, p.s.Goaway("moqt://elsewhere", time.Second))
		time.Sleep(999 * time.Millisecond)
		p.requireOpen()
		p.requireClosed(moqt.SessionGoawayTimeout)
	})
	play(t, setting{cfg: Config{Role: Server}}, func(p *script) {
		require.NoError(p, p.s.Goaway("", time.Second))
		p.requireClosed(moqt.SessionNoError) // nothing is open
	})
}
