package webclient

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s
}

func newClient(t *testing.T, cfg Config) *Client {
	c, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestRequests(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		user, password, _ := r.BasicAuth()
		io.WriteString(w, strings.Join([]string{r.Method, r.URL.RawQuery, string(body), user, password}, " "))
	})
	c := newClient(t, Config{URL: strings.Replace(s.URL, "//", "//me:secret@", 1) + "/a?key=hidden"})
	b, err := c.Post(t.Context(), []byte("{}"))
	require.NoError(t, err)
	require.Equal(t, "POST key=hidden {} me secret", string(b))
	b, err = c.Get(t.Context())
	require.NoError(t, err)
	require.Equal(t, "GET key=hidden  me secret", string(b))
	require.Equal(t, s.URL+"/a", c.Name())
}

func TestHeaders(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Header.Get("Content-Type")+" "+r.Header.Get("Accept")+" "+r.Header.Get("Api-Key"))
	})
	b, err := newClient(t, Config{URL: s.URL}).Post(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, "application/json application/json ", string(b))
	header := http.Header{"Content-Type": {"text/plain"}, "Api-Key": {"secret"}}
	b, err = newClient(t, Config{URL: s.URL, Header: header}).Post(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, "text/plain application/json secret", string(b))
}

func TestAnswersAreBounded(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, strings.Repeat("x", 11)) })
	b, err := newClient(t, Config{URL: s.URL, MaxBody: 11}).Get(t.Context())
	require.NoError(t, err)
	require.Len(t, b, 11)
	_, err = newClient(t, Config{URL: s.URL, MaxBody: 10}).Get(t.Context())
	require.ErrorContains(t, err, "longer than 10 bytes")
	require.ErrorAs(t, err, new(*BodyError))
}

func TestSlowServices(t *testing.T) {
	end := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-end
	})
	defer close(end)
	_, err := newClient(t, Config{URL: s.URL, Timeout: 20 * time.Millisecond}).Get(t.Context())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorAs(t, err, new(*BodyError))
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	other := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the request went to another host") })
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, status) })
		_, err := newClient(t, Config{URL: s.URL}).Post(t.Context(), []byte(`{"token":"secret"}`))
		var answer *StatusError
		require.ErrorAs(t, err, &answer)
		require.Equal(t, status, answer.Status)
	}
}

func TestErrorsHideTheURL(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	s.Close()
	_, err := newClient(t, Config{URL: s.URL + "/?key=hidden"}).Get(t.Context())
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hidden")
	_, err = New(Config{URL: "https://me:hidden@host:port/%zz"})
	require.ErrorContains(t, err, "malformed")
	require.NotContains(t, err.Error(), "hidden")
}

func TestURLs(t *testing.T) {
	for text, want := range map[string]string{
		"ftp://host/":  `scheme "ftp": must be https or http`,
		"keys.json":    `scheme ""`,
		"https:///key": "no host",
	} {
		_, err := New(Config{URL: text})
		require.ErrorContains(t, err, want)
		require.False(t, IsURL(text))
	}
	for text, plain := range map[string]bool{
		"http://localhost:1/": false, "http://127.0.0.1/": false, "http://[::1]/": false, "https://host/": false,
		"http://host/": true, "http://192.0.2.1/": true,
	} {
		require.Equal(t, plain, newClient(t, Config{URL: text}).Plaintext(), text)
		require.True(t, IsURL(text))
	}
}
