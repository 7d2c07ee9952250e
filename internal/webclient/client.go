package webclient

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Limits of a Client.
const (
	// maxHeader is the largest header of an answer. Common servers send less than 1 KiB.
	maxHeader = 16 << 10
	// idleTimeout is how long an unused connection stays open. Servers close theirs after a minute or more.
	idleTimeout = 30 * time.Second
)

// Config is the configuration of a Client. URL is required.
type Config struct {
	URL     string
	Timeout time.Duration // of a request, with its answer. Default: 5 s.
	MaxBody int64         // largest answer in bytes. Default: 64 KiB.
	// MaxConns is how many connections may be open. More requests wait, within their timeout. Default: 4.
	MaxConns int
	Header   http.Header // of requests, instead of those for JSON
	Secrets  Secrets     // sign posted bodies; none: nothing does
}

// Client makes requests to one URL. Its methods may be called on any goroutine.
type Client struct {
	url     *url.URL
	timeout time.Duration
	maxBody int64
	header  http.Header
	secrets Secrets
	http    *http.Client
}

// StatusError is an answer with another status than 200 OK or another of 2xx.
type StatusError struct{ Status int }

func (e *StatusError) Error() string {
	return fmt.Sprintf("the service answers with status %d %s", e.Status, http.StatusText(e.Status))
}

// BodyError is an answer of 2xx whose body is too long, or breaks off. The service has taken the request.
type BodyError struct{ Err error }

func (e *BodyError) Error() string { return e.Err.Error() }
func (e *BodyError) Unwrap() error { return e.Err }

// New returns a Client for an http or https URL.
func New(cfg Config) (*Client, error) {
	u, err := parseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	timeout, conns := cmp.Or(cfg.Timeout, 5*time.Second), cmp.Or(cfg.MaxConns, 4)
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: timeout}).DialContext,
		ForceAttemptHTTP2:      true,
		MaxConnsPerHost:        conns,
		MaxIdleConnsPerHost:    conns,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeader,
	}
	return &Client{
		url:     u,
		timeout: timeout,
		maxBody: cmp.Or(cfg.MaxBody, 64<<10),
		header:  cfg.Header,
		secrets: cfg.Secrets,
		http:    &http.Client{Transport: transport, CheckRedirect: noRedirect},
	}, nil
}

// noRedirect makes a redirect the answer, which is then a StatusError.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil: // its text has the URL, and with it a password
		return nil, errors.New("the URL is malformed; write it as https://host/path")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("URL with scheme %q: must be https or http", u.Scheme)
	case u.Host == "":
		return nil, errors.New("the URL has no host; write it as https://host/path")
	}
	return u, nil
}

// IsURL reports whether a setting that names a file or a URL names a URL.
func IsURL(s string) bool { return CheckURL(s) == nil }

// CheckURL returns the mistake in a URL.
func CheckURL(s string) error {
	_, err := parseURL(s)
	return err
}

// Name returns the URL for messages, without its user, password and query.
func (c *Client) Name() string {
	return (&url.URL{Scheme: c.url.Scheme, Host: c.url.Host, Path: c.url.Path}).String()
}

// Plaintext reports whether others on the network can read the requests.
func (c *Client) Plaintext() bool {
	host := c.url.Hostname()
	ip := net.ParseIP(host)
	return c.url.Scheme == "http" && host != "localhost" && (ip == nil || !ip.IsLoopback())
}

// Get requests the URL, and returns the body of the answer.
func (c *Client) Get(ctx context.Context) ([]byte, error) { return c.do(ctx, http.MethodGet, nil) }

// Post sends JSON to the URL, or what Config.Header says, and returns the body of the answer.
func (c *Client) Post(ctx context.Context, body []byte) ([]byte, error) {
	return c.do(ctx, http.MethodPost, body)
}

func (c *Client) do(ctx context.Context, method string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the URL is malformed")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "sluice")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(req.Header, c.header)
	if method == http.MethodPost && len(c.secrets) > 0 {
		c.secrets.sign(req.Header, time.Now(), body)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, withoutURL(err)
	}
	defer resp.Body.Close()
	return c.read(resp)
}

func (c *Client) read(resp *http.Response) ([]byte, error) {
	if resp.StatusCode/100 != 2 {
		return nil, &StatusError{resp.StatusCode}
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, c.maxBody+1))
	if err != nil {
		return nil, &BodyError{fmt.Errorf("the answer breaks off: %w", err)}
	}
	if int64(len(b)) > c.maxBody {
		return nil, &BodyError{fmt.Errorf("the answer is longer than %d bytes", c.maxBody)}
	}
	return b, nil
}

// withoutURL removes the URL from an error of package http: its query may be a credential.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }
