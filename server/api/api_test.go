package api

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/relay"
	"sluice/relay/withdrawn"
	"sluice/transport"
)

// fixture is the API of a relay with guests, whose tokens are their subjects.
type fixture struct {
	t     *testing.T
	relay *relay.Relay
	relay.Operator
	api     http.Handler
	drained int
	elders  []Elder
}

func newFixture(t *testing.T) *fixture {
	r, err := relay.New(relay.Config{Authorizer: bySubject{}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	f := &fixture{t: t, relay: r, Operator: relay.OperatorOf(r)}
	f.api = New(f.Operator, func() []Elder { return f.elders }, func() { f.drained++ }, slog.New(slog.DiscardHandler))
	return f
}

type bySubject struct{}

func (bySubject) Authorize(_ context.Context, r relay.AuthRequest) (relay.Grant, error) {
	return relay.Grant{Subject: string(r.Tokens[0].Value)}, nil
}

func (f *fixture) admit(ip, subject string, a relay.Action) *relay.Guest {
	f.t.Helper()
	g, err := f.relay.Admit(f.t.Context(), relay.AuthRequest{
		Kind: transport.RTSP, Remote: &net.TCPAddr{IP: net.ParseIP(ip), Port: 554}, Path: "/", Action: a,
		Tokens:    []moqt.Token{{AliasType: moqt.AliasUseValue, Value: []byte(subject)}},
		Namespace: moqt.Namespace{"live"}, Name: subject,
	})
	require.NoError(f.t, err)
	f.t.Cleanup(g.Leave)
	return g
}

// do sends a request, and returns its answer: the error, or JSON in v. The document has to have the status.
func (f *fixture) do(method, path string, code int, v any) (text string) {
	f.t.Helper()
	w := httptest.NewRecorder()
	f.api.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	require.Equal(f.t, code, w.Code, "%s %s: %s", method, path, w.Body)
	path, _, _ = strings.Cut(path, "?")
	path = regexp.MustCompile(`sessions/[^/]+/end$`).ReplaceAllString(path, "sessions/{id}/end")
	for _, r := range routes() {
		if r.path == path && r.method == method {
			require.Contains(f.t, r.operation()["responses"], strconv.Itoa(code), "%s %s", method, path)
		}
	}
	if v != nil {
		require.NoError(f.t, json.Unmarshal(w.Body.Bytes(), v))
	}
	return w.Body.String()
}

// ids lists sessions, page by page.
func (f *fixture) ids(query string, limit int) (pages [][]uint64) {
	for after := uint64(0); ; {
		var s Sessions
		f.do("GET", fmt.Sprintf("/api/sessions?after=%d&limit=%d%s", after, limit, query), http.StatusOK, &s)
		var ids []uint64
		for _, s := range s.Sessions {
			ids = append(ids, s.ID)
		}
		pages = append(pages, ids)
		if s.Next == 0 {
			return pages
		}
		require.Greater(f.t, s.Next, after)
		after = s.Next
	}
}

// TestSessions lists sessions and ends some.
func TestSessions(t *testing.T) {
	f := newFixture(t)
	require.Equal(t, [][]uint64{nil}, f.ids("", 7))
	var guests []*relay.Guest
	for i := range 5 {
		action := relay.ActionSubscribe
		if i == 3 {
			action = relay.ActionPublishNamespace
		}
		guests = append(guests, f.admit(fmt.Sprint("192.0.2.", i+1), []string{"alice", "bob"}[i%2], action))
	}
	require.Equal(t, [][]uint64{{1, 2}, {3, 4}, {5}}, f.ids("", 2))
	require.Equal(t, [][]uint64{{1, 2, 3, 4, 5}}, f.ids("", 5))
	require.Equal(t, [][]uint64{{1, 3}, {5}}, f.ids("&subject=alice", 2))
	require.Equal(t, [][]uint64{{2, 3}}, f.ids("&prefix=192.0.2.2/31", 9))
	require.Equal(t, [][]uint64{{4}}, f.ids("&role=publisher", 9))
	require.Equal(t, [][]uint64{nil}, f.ids("&role=publisher&subject=alice", 9))
	require.Contains(t, f.do("GET", "/api/sessions", http.StatusOK, nil), `"subjects": [`)

	var ended Ended
	f.do("POST", "/api/sessions/2/end", http.StatusOK, &ended)
	require.Equal(t, []uint64{2}, ended.Ended)
	require.ErrorIs(t, context.Cause(guests[1].Context()), relay.ErrWithdrawn)
	require.Contains(t, f.do("POST", "/api/sessions/99/end", http.StatusNotFound, nil), "there is no session 99")
	f.do("POST", "/api/sessions/end?subject=alice&prefix=192.0.2.0/30", http.StatusOK, &ended)
	require.Equal(t, []uint64{1, 3}, ended.Ended)
	require.NoError(t, guests[4].Context().Err())
	require.Contains(t, f.do("POST", "/api/sessions/end?subject=carol", http.StatusOK, nil), `"ended": []`)
}

// TestElders lists and ends sessions of a process that was replaced, and that has the same ids.
func TestElders(t *testing.T) {
	f, old := newFixture(t), newFixture(t)
	socket := filepath.Join(t.TempDir(), "socket")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	server := &http.Server{Handler: old.api}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	f.elders = []Elder{{PID: 7, Socket: socket}}
	here := f.admit("192.0.2.1", "alice", relay.ActionSubscribe)
	var there []*relay.Guest
	for range 3 {
		there = append(there, old.admit("192.0.2.1", "alice", relay.ActionSubscribe))
	}
	var s Sessions
	f.do("GET", "/api/sessions", http.StatusOK, &s)
	require.Len(t, s.Sessions, 1)
	require.Equal(t, []int{7}, s.Draining)
	require.Equal(t, [][]uint64{{1, 2}, {3}}, f.ids("&process=7", 2))
	require.Contains(t, f.do("GET", "/api/sessions?process=7&limit=0", http.StatusBadRequest, nil), "limit")
	require.Contains(t, f.do("GET", "/api/sessions?process=8", http.StatusNotFound, nil), `process: "8": must be one`)

	var ended Ended
	f.do("POST", "/api/sessions/1/end?process=7", http.StatusOK, &ended)
	require.Equal(t, Ended{Ended: []uint64{1}}, ended)
	require.NoError(t, here.Context().Err())
	require.Error(t, there[0].Context().Err())
	there[0].Leave()
	f.do("POST", "/api/sessions/end?subject=alice", http.StatusOK, &ended)
	require.Equal(t, Ended{[]uint64{1}, []EndedElsewhere{{7, []uint64{2, 3}}}}, ended)

	require.NoError(t, server.Close())
	require.Contains(t, f.do("POST", "/api/sessions/end?subject=bob", http.StatusBadGateway, nil),
		"process 7, which was replaced, does not answer")
}

// TestWithdrawals withdraws tokens and restores them.
func TestWithdrawals(t *testing.T) {
	f := newFixture(t)
	var all Withdrawals
	require.Contains(t, f.do("GET", "/api/withdrawals", http.StatusOK, nil), `"withdrawals": []`)
	var e withdrawn.Entry
	f.do("POST", "/api/withdrawals?subject=alice&for=24h", http.StatusOK, &e)
	require.Equal(t, []any{"alice", 24 * time.Hour}, []any{e.Subject, e.Until.Sub(e.Set)})
	require.True(t, f.Withdrawn().Has("alice"))
	f.do("GET", "/api/withdrawals", http.StatusOK, &all)
	require.Equal(t, []withdrawn.Entry{e}, all.Withdrawals)
	f.do("DELETE", "/api/withdrawals?subject=alice", http.StatusOK, &e)
	require.True(t, e.Restored)
	require.False(t, f.Withdrawn().Has("alice"))
	require.Contains(t, f.do("DELETE", "/api/withdrawals?subject=alice", http.StatusNotFound, nil), "not withdrawn")
	for i := range withdrawn.MaxEntries - 1 {
		_, err := f.Withdrawn().Withdraw(fmt.Sprint(i), time.Hour)
		require.NoError(t, err)
	}
	require.Contains(t, f.do("POST", "/api/withdrawals?subject=bob&for=24h", http.StatusConflict, nil), "1024 subjects")
}

func TestDrain(t *testing.T) {
	f := newFixture(t)
	for i := range 2 {
		require.Contains(t, f.do("POST", "/api/drain", http.StatusAccepted, nil), `"sessions": 0`)
		require.Equal(t, i+1, f.drained)
	}
}

// TestMistakes sends requests that get an error, and change nothing.
func TestMistakes(t *testing.T) {
	f := newFixture(t)
	g := f.admit("192.0.2.1", "alice", relay.ActionSubscribe)
	for request, want := range map[string]string{
		"POST /api/sessions/end":                           "say which sessions: subject, prefix or role",
		"POST /api/sessions/end?subject=":                  "subject: must have one value",
		"POST /api/sessions/end?subject=alice&subject=bob": "subject: must have one value",
		"POST /api/sessions/end?subjects=alice":            "subjects: is no parameter here; there are: subject, ",
		"POST /api/sessions/end?role=viewer":               `"viewer": must be publisher, subscriber or upstream`,
		"POST /api/sessions/end?prefix=192.0.2.0/33":       `prefix: "192.0.2.0/33": must be an IP address or a`,
		"POST /api/sessions/end?subject=alice&prefix=x":    `prefix: "x": must be`,
		"POST /api/sessions/end?subject=alice;prefix=::/0": "invalid semicolon",
		"POST /api/sessions/x/end":                         `id: "x": must be a number`,
		"POST /api/sessions/0/end":                         `id: "0": must be a number`,
		"POST /api/sessions/-1/end":                        `id: "-1": must be a number`,
		"POST /api/sessions/1/end?subject=alice":           "subject: is no parameter here",
		"GET /api/sessions?limit=0":                        "limit",
		"GET /api/sessions?limit=1001":                     "limit",
		"GET /api/sessions?after=x":                        `after: "x": must be a number`,
		"POST /api/withdrawals?subject=alice":              `for: "": must be a duration such as 24h`,
		"POST /api/withdrawals?subject=alice&for=1":        `for: "1": must be a duration such as 24h`,
		"POST /api/withdrawals?subject=alice&for=0s":       "for: 0s: must be between 1s and",
		"POST /api/withdrawals?subject=alice&for=9000h":    "for: 9000h0m0s: must be",
		"POST /api/withdrawals?for=24h":                    "length of subject",
		"POST /api/drain?timeout=1s":                       "timeout: is no parameter here",
		"DELETE /api/withdrawals?subject=alice&for=24h":    "for: is no parameter here",
		"GET /api/withdrawals?subject=alice":               "subject: is no parameter here",
	} {
		method, path, _ := strings.Cut(request, " ")
		require.Contains(t, f.do(method, path, http.StatusBadRequest, nil), want, request)
	}
	f.do("GET", "/api/sessions/1/end", http.StatusMethodNotAllowed, nil)
	f.do("GET", "/api/nothing", http.StatusNotFound, nil)
	require.NoError(t, g.Context().Err())
	require.Empty(t, f.Withdrawn().All())
	require.Zero(t, f.drained)
}

// TestOtherSites sends what a browser does for a page of another site.
func TestOtherSites(t *testing.T) {
	f := newFixture(t)
	for _, header := range []http.Header{
		{"Origin": {"https://page.example"}}, {"Origin": {"null"}}, {"Sec-Fetch-Site": {"cross-site"}},
		{"Sec-Fetch-Site": {"same-site"}},
	} {
		for _, r := range routes() {
			if r.method == "GET" {
				continue
			}
			req := httptest.NewRequest(r.method, r.path, nil)
			req.Header = header
			w := httptest.NewRecorder()
			f.api.ServeHTTP(w, req)
			require.Equal(t, http.StatusForbidden, w.Code, "%s %v", r.path, header)
			require.Contains(t, w.Body.String(), "another site")
		}
	}
	require.Zero(t, f.drained)
}

// TestDocument looks for the meaning of each field of each answer, and of nothing else.
func TestDocument(t *testing.T) {
	var d struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct{ Description string }
				Required   []string
			}
		}
	}
	newFixture(t).do("GET", "/api/openapi.json", http.StatusOK, &d)
	require.Len(t, d.Components.Schemas, len(answers))
	for name, s := range d.Components.Schemas {
		require.Len(t, s.Properties, len(answers[name].fields), name)
		for field, p := range s.Properties {
			require.NotEmpty(t, p.Description, "%s: %s", name, field)
		}
	}
	require.Equal(t, []string{"subject", "set", "until"}, d.Components.Schemas["Withdrawal"].Required)
}
