package session

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/transport/transporttest"
)

func register(alias uint64, value string) moqt.Token {
	return moqt.Token{AliasType: moqt.AliasRegister, Alias: alias, Type: 1, Value: []byte(value)}
}

func useAlias(alias uint64) moqt.Token { return moqt.Token{AliasType: moqt.AliasUse, Alias: alias} }

func deleteAlias(alias uint64) moqt.Token {
	return moqt.Token{AliasType: moqt.AliasDelete, Alias: alias}
}

func plain(value string) moqt.Token {
	return moqt.Token{AliasType: moqt.AliasUseValue, Type: 1, Value: []byte(value)}
}

func TestTokensOfThePeer(t *testing.T) {
	h := newHandler()
	play(t, setting{cfg: Config{Role: Server, Handler: h, Limits: Limits{MaxAuthTokenCacheSize: 40}}}, func(p *script) {
		names := 0
		ask := func(tokens ...moqt.Token) []moqt.Token {
			names++
			p.request(&moqt.Subscribe{
				Track:      moqt.FullTrackName{Namespace: moqt.Namespace{"a"}, Name: strings.Repeat("x", names)},
				Parameters: moqt.Parameters{AuthorizationTokens: tokens},
			})
			return (<-h.subscribes).Tokens()
		}
		require.Nil(p, ask())
		require.Equal(p, []moqt.Token{plain("one"), plain("two")}, ask(register(1, "one"), plain("two")))
		require.Equal(p, []moqt.Token{plain("one")}, ask(useAlias(1)))
		require.Equal(p, []moqt.Token{plain("12345")}, ask(register(2, "12345"))) // 19 + 21 bytes: full
		require.Empty(p, ask(deleteAlias(1)))
		require.Equal(p, []moqt.Token{plain("uno"), plain("12345")}, ask(register(1, "uno"), useAlias(2)))
		p.request(&moqt.Subscribe{Track: testTrack, Parameters: moqt.Parameters{
			AuthorizationTokens: []moqt.Token{register(3, "")},
		}})
		p.requireClosed(moqt.SessionAuthTokenCacheOverflow)
	})
}

func TestTokensOfThePeersSetup(t *testing.T) {
	h := newHandler()
	set := setting{cfg: Config{Role: Server, Handler: h, Limits: Limits{MaxAuthTokenCacheSize: 40}}, silent: true}
	play(t, set, func(p *script) {
		large := strings.Repeat("x", 30)
		p.setup(&moqt.Setup{AuthorizationTokens: []moqt.Token{register(1, "one"), register(2, large), plain("three")}})
		peer, err := p.s.Peer(p.Context())
		require.NoError(p, err)
		require.Equal(p, []moqt.Token{plain("one"), plain(large), plain("three")}, peer.Tokens)
		p.request(&moqt.Subscribe{Track: testTrack, Parameters: moqt.Parameters{
			AuthorizationTokens: []moqt.Token{useAlias(1)},
		}})
		require.Equal(p, []moqt.Token{plain("one")}, (<-h.subscribes).Tokens())
		// Tokens that did not fit were not registered (draft §10.3.1.4).
		p.request(&moqt.Subscribe{Track: otherTrack, Parameters: moqt.Parameters{
			AuthorizationTokens: []moqt.Token{useAlias(2)},
		}})
		p.requireClosed(moqt.SessionUnknownAuthTokenAlias)
	})
}

// TestTokensOfOpenRequests checks that all requests of a peer together may have tokens of 100 bytes: two of these.
func TestTokensOfOpenRequests(t *testing.T) {
	token := func(c string) moqt.Parameters {
		return moqt.Parameters{AuthorizationTokens: []moqt.Token{plain(strings.Repeat(c, 100/2-16))}}
	}
	h := newHandler()
	play(t, setting{cfg: Config{Role: Server, Handler: h, Limits: Limits{MaxAuthTokenMemory: 100}}}, func(p *script) {
		ask := func(name string) *exchange {
			return p.request(&moqt.Subscribe{
				Track: moqt.FullTrackName{Namespace: moqt.Namespace{"a"}, Name: name}, Parameters: token(name),
			})
		}
		accepted := func(name string) (*exchange, *Publication) {
			e := ask(name)
			pub := <-h.subscribes
			require.NoError(p, pub.Accept(moqt.Parameters{}, nil))
			require.IsType(p, &moqt.SubscribeOK{}, e.receive())
			return e, pub
		}
		requireFull := func() {
			require.NotZero(p, ask("x").requireRefused(moqt.RequestExcessiveLoad).RetryInterval)
		}
		a, _ := accepted("a")
		b, second := accepted("b")
		requireFull()
		a.CancelWrite(uint64(moqt.ResetCancelled)) // makes room
		p.requireOpen()

		b.update(token("c"))
		u := <-second.Updates()
		requireFull() // until the update has its response
		require.NoError(p, u.OK(moqt.Parameters{}))
		b.receive()
		require.Equal(p, token("c").AuthorizationTokens, second.Tokens(), "they replace those of the request")
		b.update(moqt.Parameters{})
		require.NoError(p, (<-second.Updates()).OK(moqt.Parameters{}))
		b.receive()
		require.Equal(p, token("c").AuthorizationTokens, second.Tokens(), "an update without tokens changes nothing")

		_, third := accepted("d")
		requireFull()
		b.update(token("e"))
		refused := &moqt.RequestError{}
		u = <-second.Updates()
		require.Empty(p, u.Tokens)
		require.ErrorAs(p, u.OK(moqt.Parameters{}), &refused)
		require.Equal(p, moqt.RequestExcessiveLoad, refused.Code)
		require.NoError(p, second.Done(moqt.DoneTrackEnded, ""))
		require.NoError(p, third.Done(moqt.DoneTrackEnded, ""))
		accepted("f")
		_, last := accepted("g")
		requireFull()
		require.Equal(p, token("g").AuthorizationTokens, last.Tokens())
	})
}

// TestTokensOfUpdates checks that updates count until the request ends, even if nobody has answered them.
func TestTokensOfUpdates(t *testing.T) {
	h := newHandler()
	play(t, setting{cfg: Config{Role: Server, Handler: h, Limits: Limits{MaxAuthTokenMemory: 100}}}, func(p *script) {
		token := moqt.Parameters{AuthorizationTokens: []moqt.Token{plain(strings.Repeat("x", 100/2-16))}}
		for range 3 {
			e := p.request(&moqt.Subscribe{Track: testTrack})
			pub := <-h.subscribes
			for range 4 {
				e.update(token)
			}
			p.requireOpen()
			require.Len(p, pub.Updates(), 4)
			require.Len(p, (<-pub.Updates()).Tokens, 1)
			require.Len(p, (<-pub.Updates()).Tokens, 1)
			require.Empty(p, (<-pub.Updates()).Tokens, "there is no room")
			e.CancelWrite(uint64(moqt.ResetCancelled))
			p.requireOpen()
		}
	})
}

// TestTokensOfOurs checks that tokens of the application are sent by value, and refused otherwise.
func TestTokensOfOurs(t *testing.T) {
	play(t, setting{}, func(p *script) {
		for _, alias := range []moqt.Token{register(1, "a"), useAlias(1), deleteAlias(1)} {
			_, err := p.s.Subscribe(p.Context(), moqt.Subscribe{Track: testTrack, Parameters: moqt.Parameters{
				AuthorizationTokens: []moqt.Token{plain("a"), alias},
			}}, newCollector())
			require.ErrorIs(p, err, errTokenAlias)
			p.accept().requireReset(moqt.ResetCancelled) // the stream was opened before the error
		}
		_, err := p.s.Subscribe(p.Context(), moqt.Subscribe{Track: testTrack, Parameters: moqt.Parameters{
			AuthorizationTokens: []moqt.Token{plain("a")},
		}}, newCollector())
		require.NoError(p, err)
		sent := p.accept().receive().(*moqt.Subscribe)
		require.Equal(p, []moqt.Token{plain("a")}, sent.Parameters.AuthorizationTokens)
	})
}

func TestTokensAreNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c, s := transporttest.Pipe(transporttest.PipeConfig{})
		client, err := New(c, Config{Logger: logger, Tokens: []moqt.Token{plain("secret")}})
		require.NoError(t, err)
		server, err := New(s, Config{Role: Server, Logger: logger})
		require.NoError(t, err)
		for _, s := range []*Session{client, server} {
			go func() { _ = s.Run(context.Background()) }()
		}
		sub, err := client.Subscribe(t.Context(), moqt.Subscribe{Track: testTrack, Parameters: moqt.Parameters{
			AuthorizationTokens: []moqt.Token{plain("secret")},
		}}, newCollector())
		require.NoError(t, err)
		_, err = sub.Wait(t.Context())
		require.Error(t, err)
		client.Close(moqt.SessionNoError, "")
		synctest.Wait()
		require.Contains(t, log.String(), "SUBSCRIBE")
		require.NotContains(t, log.String(), "secret")
		require.Equal(t, 2, strings.Count(log.String(), "level=INFO msg=\"session started\""))
		require.Equal(t, 2, strings.Count(log.String(), "level=INFO msg=\"session ended\""))
		require.Equal(t, 4, strings.Count(log.String(), "level=INFO"))
	})
}
