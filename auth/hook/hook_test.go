package hook

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
	"sluice/moqt"
	"sluice/relay"
	"sluice/transport"
)

var quiet = slog.New(slog.DiscardHandler)

// serve starts a service, and returns a Hook that asks it.
func serve(t *testing.T, cfg Config, handler http.HandlerFunc) *Hook {
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	cfg.URL = s.URL
	if cfg.Logger == nil {
		cfg.Logger = quiet
	}
	h, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(h.Close)
	return h
}

// says answers each query with a text.
func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }
}

func request(token string) relay.AuthRequest {
	return relay.AuthRequest{
		Action: relay.ActionSubscribe, Namespace: moqt.Namespace{"live", "a b"}, Name: "video/1",
		Tokens: []moqt.Token{
			{AliasType: moqt.AliasUseValue, Value: []byte(token)},
			{AliasType: moqt.AliasUseValue, Type: 1, Value: []byte{0xd2, 0xff}},
		},
		Authority: "relay.example", Path: "/moq?x=1",
		Remote: &net.UDPAddr{IP: net.ParseIP("192.0.2.7"), Port: 4711}, Kind: transport.WebTransport,
	}
}

func (h *Hook) ask1(t *testing.T, r relay.AuthRequest) (relay.Grant, moqt.RequestErrorCode) {
	t.Helper()
	grant, err := h.Authorize(t.Context(), r)
	if err == nil {
		return grant, noError
	}
	var refused *moqt.RequestError
	require.ErrorAs(t, err, &refused)
	return grant, refused.Code
}

const noError moqt.RequestErrorCode = 0xffff

func TestQuery(t *testing.T) {
	queries := make(chan string, 2)
	h := serve(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Equal(t, "application/json", r.Header.Get("Content-Type"))
		queries <- r.Method + " " + string(b)
		io.WriteString(w, `{"allow": true}`)
	})
	grant, code := h.ask1(t, request("secret"))
	require.Equal(t, noError, code)
	require.Zero(t, grant)
	require.Equal(t, `POST {"action":"subscribe","message":"SUBSCRIBE","namespace":"live/a%20b","track":"video%2F1",`+
		`"tokens":[{"type":0,"value":"secret"},{"type":1,"base64":"0v8="}],"authority":"relay.example",`+
		`"path":"/moq?x=1","address":"192.0.2.7","transport":"webtransport"}`, <-queries)
	r := relay.AuthRequest{Action: relay.ActionPublishNamespace, Namespace: moqt.Namespace{"live"}}
	_, code = h.ask1(t, r)
	require.Equal(t, noError, code)
	require.Equal(t, `POST {"action":"publish","message":"PUBLISH_NAMESPACE","namespace":"live","tokens":[],`+
		`"authority":"","path":"","address":"","transport":"quic"}`, <-queries)
}

func TestAnswers(t *testing.T) {
	const future = "2126-01-31T12:00:00Z"
	for text, want := range map[string]moqt.RequestErrorCode{
		`{"allow": true}`:                                    noError,
		`{"allow": true, "ttl": 0, "more": 1}`:               noError,
		`{"allow": true, "expires": "` + future + `"}`:       noError,
		`{"allow": true, "expires": "2020-01-31T12:00:00Z"}`: moqt.RequestExpiredAuthToken,
		`{"allow": false}`:                                   moqt.RequestUnauthorized,
		`{"allow": false, "reason": "unknown camera"}`:       moqt.RequestUnauthorized,
		`{"allow": false, "expired": true}`:                  moqt.RequestExpiredAuthToken,
		``:                                                   moqt.RequestInternalError,
		`{}`:                                                 moqt.RequestInternalError,
		`{"allow": "yes"}`:                                   moqt.RequestInternalError,
		`{"allow": null}`:                                    moqt.RequestInternalError,
		`{"allow": true} {"allow": true}`:                    moqt.RequestInternalError,
		`{"allow": true, "ttl": -1}`:                         moqt.RequestInternalError,
		`{"allow": true, "ttl": 86401}`:                      moqt.RequestInternalError,
		`{"allow": true, "subject": "` + strings.Repeat("x", maxSubject+1) + `"}`: moqt.RequestInternalError,
		`{"allow": true, "expires": "noon"}`:                                      moqt.RequestInternalError,
		`<html>`:                                                                  moqt.RequestInternalError,
		`{"allow": true, "x": "` + strings.Repeat("x", 16<<10):                    moqt.RequestInternalError,
	} {
		h := serve(t, Config{}, says(text))
		_, code := h.ask1(t, request("x"))
		require.Equal(t, want, code, text)
	}
	h := serve(t, Config{}, says(`{"allow": false, "reason": "unknown camera"}`))
	_, err := h.Authorize(t.Context(), request("x"))
	require.ErrorContains(t, err, "unknown camera")
	h = serve(t, Config{}, says(`{"allow": true, "ttl": 60, "subject": "bob", "expires": "`+future+`"}`))
	before := time.Now()
	grant, _ := h.ask1(t, request("x"))
	require.Equal(t, future, grant.Expires.Format(time.RFC3339))
	require.Equal(t, "bob", grant.Subject)
	require.False(t, grant.Review.Before(before.Add(time.Minute)))
	require.False(t, grant.Review.After(time.Now().Add(time.Minute)))
}

func TestStatuses(t *testing.T) {
	for status, want := range map[int]moqt.RequestErrorCode{
		http.StatusUnauthorized:        moqt.RequestUnauthorized,
		http.StatusForbidden:           moqt.RequestUnauthorized,
		http.StatusInternalServerError: moqt.RequestInternalError,
		http.StatusNotFound:            moqt.RequestInternalError,
		http.StatusNoContent:           moqt.RequestInternalError,
		http.StatusTooManyRequests:     moqt.RequestInternalError,
	} {
		h := serve(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			if status != http.StatusNoContent {
				io.WriteString(w, `{"allow": true}`)
			}
		})
		_, code := h.ask1(t, request("x"))
		require.Equal(t, want, code, status)
	}
}

func TestRedirectsAllowNothing(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the tokens went to another host")
	}))
	defer other.Close()
	h := serve(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	_, code := h.ask1(t, request("x"))
	require.Equal(t, moqt.RequestInternalError, code)
}

func TestSlowService(t *testing.T) {
	end := make(chan struct{})
	h := serve(t, Config{Timeout: 20 * time.Millisecond}, func(http.ResponseWriter, *http.Request) { <-end })
	defer close(end)
	_, err := h.Authorize(t.Context(), request("x"))
	var refused *moqt.RequestError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, moqt.RequestInternalError, refused.Code)
	require.NotZero(t, refused.RetryInterval)
}

func TestCancelledRequestsDoNotWait(t *testing.T) {
	end := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	h := serve(t, Config{}, func(http.ResponseWriter, *http.Request) {
		cancel()
		<-end
	})
	defer close(end)
	_, err := h.Authorize(ctx, request("x"))
	require.Error(t, err)
}

func TestDecisionsAreStored(t *testing.T) {
	asked := 0
	h := serve(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		asked++
		var q query
		require.NoError(t, json.NewDecoder(r.Body).Decode(&q))
		switch q.Tokens[0].Value {
		case "allowed":
			io.WriteString(w, `{"allow": true, "ttl": 3600}`)
		case "refused":
			io.WriteString(w, `{"allow": false, "ttl": 3600}`)
		case "once":
			io.WriteString(w, `{"allow": true}`)
		}
	})
	for _, c := range []struct {
		token string
		want  moqt.RequestErrorCode
		asked int // with all queries before
	}{
		{"allowed", noError, 1}, {"allowed", noError, 1},
		{"refused", moqt.RequestUnauthorized, 2}, {"refused", moqt.RequestUnauthorized, 2},
		{"once", noError, 3}, {"once", noError, 4},
		{"broken", moqt.RequestInternalError, 5}, {"broken", moqt.RequestInternalError, 6},
	} {
		_, code := h.ask1(t, request(c.token))
		require.Equal(t, c.want, code, c.token)
		require.Equal(t, c.asked, asked, c.token)
	}
	other := request("allowed")
	other.Remote = &net.UDPAddr{IP: net.ParseIP("192.0.2.7"), Port: 4712}
	h.ask1(t, other)
	require.Equal(t, 6, asked, "another session from the same address")
	for _, change := range []func(*relay.AuthRequest){
		func(r *relay.AuthRequest) { r.Action = relay.ActionFetch },
		func(r *relay.AuthRequest) { r.Name = "audio" },
		func(r *relay.AuthRequest) { r.Namespace = moqt.Namespace{"live"} },
		func(r *relay.AuthRequest) { r.Path = "/other" },
		func(r *relay.AuthRequest) { r.Tokens = append(r.Tokens, r.Tokens[0]) },
	} {
		before, r := asked, request("allowed")
		change(&r)
		h.ask1(t, r)
		require.Equal(t, before+1, asked)
	}
	require.Equal(t, map[string]float64{
		outcomeAllowed: 8, outcomeRefused: 1, outcomeCached: 3, outcomeFailed: 2, outcomeOverloaded: 0,
	}, counts(t, h))
}

// counts returns the metric by outcome.
func counts(t *testing.T, h *Hook) map[string]float64 {
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(h))
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 1)
	all := make(map[string]float64)
	for _, m := range families[0].GetMetric() {
		all[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
	}
	return all
}

// A stored decision is used until its time is over, and no longer.
func TestStoredDecisionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		allow := true
		a := answer{Allow: &allow, TTL: 10, Expires: time.Now().Add(5 * time.Second)}
		d := a.decide(time.Now())
		require.True(t, d.isCurrent(time.Now()))
		grant, err := d.apply(time.Now())
		require.NoError(t, err)
		require.Equal(t, time.Now().Add(10*time.Second), grant.Review)
		time.Sleep(5 * time.Second)
		_, err = d.apply(time.Now())
		require.ErrorContains(t, err, "expired")
		time.Sleep(5 * time.Second)
		require.False(t, d.isCurrent(time.Now()))
		require.False(t, new(decision).isCurrent(time.Now()), "it is for one request")
	})
}

func TestEqualQueriesBecomeOne(t *testing.T) {
	var asked atomic.Int32
	answer := make(chan struct{})
	h := serve(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		<-answer
		io.WriteString(w, `{"allow": true, "ttl": 60}`)
	})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			_, err := h.Authorize(t.Context(), request("x"))
			require.NoError(t, err)
		})
	}
	close(answer)
	all.Wait()
	require.Equal(t, int32(1), asked.Load())
}

// TestAnsweredMeanwhile has a request that found no decision ask when an equal one has just got its answer.
func TestAnsweredMeanwhile(t *testing.T) {
	var asked atomic.Int32
	h := serve(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		io.WriteString(w, `{"allow": true, "ttl": 60}`)
	})
	for range 2 {
		d, err := h.ask(key{1}, []byte("{}"), netip.Prefix{})
		require.NoError(t, err)
		require.Nil(t, d.refused)
	}
	require.Equal(t, int32(1), asked.Load())
}

func TestQueriesUnderWayAreBounded(t *testing.T) {
	const limit = 3
	var under, most atomic.Int32
	h := serve(t, Config{MaxQueries: limit}, func(w http.ResponseWriter, _ *http.Request) {
		n := under.Add(1)
		defer under.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		io.WriteString(w, `{"allow": true}`)
	})
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			_, err := h.Authorize(t.Context(), request(strings.Repeat("x", i)))
			require.NoError(t, err)
		})
	}
	all.Wait()
	require.LessOrEqual(t, most.Load(), int32(limit))
}

func TestGate(t *testing.T) {
	source := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32)
	}
	a, b, c := source(1<<12), source(1<<12+1), source(1<<12+2)
	g := newGate(1)
	require.NoError(t, g.enter(t.Context(), a))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, g.enter(ended, a), context.Canceled)
	for range maxPendingOfSource - 1 {
		require.True(t, g.add(a))
	}
	require.ErrorIs(t, g.enter(t.Context(), a), errOverloaded, "the share of the source")
	require.True(t, g.add(b))
	for i := range maxPending - maxPendingOfSource - 1 {
		require.True(t, g.add(source(i)))
	}
	require.ErrorIs(t, g.enter(t.Context(), c), errOverloaded, "all of it")
	g.leave(a)
	require.True(t, g.add(c))
	g.remove(b)
	require.NotContains(t, g.of, b)
}

// TestOverload checks that a source that has used up its share leaves the service to others. The addresses of an IPv6
// /64 are one source.
func TestOverload(t *testing.T) {
	for _, c := range []struct{ first, same, other string }{
		{"192.0.2.7", "192.0.2.7", "192.0.2.8"},
		{"::ffff:192.0.2.7", "192.0.2.7", "::ffff:192.0.2.8"},
		{"2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:1::1"},
	} {
		h := serve(t, Config{}, says(`{"allow": true}`))
		from := func(ip string) moqt.RequestErrorCode {
			r := request("x")
			r.Remote = &net.UDPAddr{IP: net.ParseIP(ip), Port: 1}
			_, code := h.ask1(t, r)
			return code
		}
		for range maxPendingOfSource {
			require.True(t, h.gate.add(sourceOf(&net.UDPAddr{IP: net.ParseIP(c.first)})))
		}
		require.Equal(t, moqt.RequestExcessiveLoad, from(c.same))
		require.Equal(t, noError, from(c.other), "other sources are served")
	}
}

func TestLongQueriesAreNotSent(t *testing.T) {
	h := serve(t, Config{}, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
	_, code := h.ask1(t, request(strings.Repeat("x", maxQuery)))
	require.Equal(t, moqt.RequestUnauthorized, code)
}

// Nothing that identifies a peer or its tokens reaches the log, and failures do not flood it.
func TestLog(t *testing.T) {
	var b strings.Builder
	h := serve(t, Config{Logger: slog.New(slog.NewTextHandler(&b, nil))}, says("secret answer"))
	for range 10 {
		h.ask1(t, request("secret token"))
	}
	require.Equal(t, 1, strings.Count(b.String(), "\n"), b.String())
	require.NotContains(t, b.String(), "token\"")
	require.NotContains(t, b.String(), "secret token")
}

func TestConfigErrors(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{URL: "auth.example"}, "must be https or http"},
		{Config{URL: "https://auth.example", MaxQueries: MaxQueries + 1}, "1025: must be between 1 and 1024"},
		{Config{URL: "https://auth.example", MaxQueries: -1}, "MaxQueries: -1"},
	} {
		_, err := New(c.cfg)
		require.ErrorContains(t, err, c.want)
	}
	var b strings.Builder
	_, err := New(Config{URL: "http://auth.example/?key=hidden", Logger: slog.New(slog.NewTextHandler(&b, nil))})
	require.NoError(t, err)
	require.Contains(t, b.String(), "without encryption")
	require.NotContains(t, b.String(), "hidden")
}

func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		`{"allow": true}`, `{"allow": false, "reason": "no", "expired": true}`, `{}`,
		`{"allow": true, "ttl": 60.5, "expires": "2026-01-31T12:00:00Z"}`, `{"allow":true,"ttl":1e999}`,
	} {
		f.Add([]byte(s))
	}
	now := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testlimit.Start(t, len(b), 1000)()
		a, err := parseAnswer(b)
		if err != nil {
			return
		}
		d := a.decide(now)
		grant, err := d.apply(now)
		require.Equal(t, *a.Allow && (a.Expires.IsZero() || a.Expires.After(now)), err == nil)
		if !grant.Review.IsZero() {
			require.True(t, grant.Review.Sub(now) <= maxTTL*time.Second)
		}
	})
}
