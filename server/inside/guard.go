package inside

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"sluice/clock"
	"sluice/internal/files"
	"sluice/transport"
)

// page is the path of the page, to which users follow links. All else is for its script.
const page = "/inside"

// Limits of those who show tokens.
const (
	minToken     = 16      // bytes: shorter ones can be guessed
	maxTokenFile = 4 << 10 // bytes
	failures     = 5       // wrong tokens at once, from one source
	failureEvery = 10 * time.Second
	maxSources   = 1 << 10 // that are remembered
)

// checkInterval is how often the token of a request that lasts is compared again.
const checkInterval = 500 * time.Millisecond

// Guard lets those in who show the operator's token. Without a token, it lets programs of this machine in.
//
// A program of this machine comes from the loopback interface, and calls the relay by an address of it or by
// "localhost". Another name may belong to a web page that has had its own name resolved to 127.0.0.1 (DNS rebinding). A
// reverse proxy on this machine stands for others. Most say so in a header, but not all: behind such a proxy only a
// token tells who may look.
type Guard struct {
	tokenFile string // "": there is no token

	mu    sync.Mutex
	wrong *lru.Cache[netip.Prefix, *rate.Limiter] // of tokens, by source
}

// NewGuard returns a guard. The file has the token, which is read again each time that a token is shown, and as long as
// a request with it lasts; "" is for no token.
func NewGuard(tokenFile string) (*Guard, error) {
	wrong, err := lru.New[netip.Prefix, *rate.Limiter](maxSources)
	if err != nil {
		return nil, err
	}
	g := &Guard{tokenFile: tokenFile, wrong: wrong}
	if tokenFile != "" {
		_, err = g.token()
	}
	return g, err
}

// token reads the token.
func (g *Guard) token() (string, error) {
	b, _, err := files.Read(g.tokenFile, maxTokenFile)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(b))
	if len(text) < minToken || strings.ContainsAny(text, "\r\n") {
		return "", fmt.Errorf("%s: must have one line with a token of %d bytes or more; make one with: "+
			"head -c 24 /dev/urandom | base64", g.tokenFile, minToken)
	}
	return text, nil
}

// Wrap returns a handler that serves only those who may look.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code, why := g.refuse(r); code != 0 {
			if code == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", `Basic realm="relay: the admin token is the password"`)
			}
			w.Header().Set("Cache-Control", "no-store")
			http.Error(w, why, code)
			return
		}
		if g.tokenFile != "" {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			go g.watch(ctx, cancel, shownToken(r))
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}

// watch cancels a request when its token is the right one no more.
func (g *Guard) watch(ctx context.Context, cancel context.CancelFunc, shown string) {
	for range clock.Every(checkInterval, ctx.Done()) {
		if token, err := g.token(); err != nil || !equal(token, shown) {
			cancel()
			return
		}
	}
}

// equal compares tokens in a time that tells nothing about them.
func equal(token, shown string) bool {
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(shown))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// refuse returns the status and the reason with which a request is refused, or 0.
func (g *Guard) refuse(r *http.Request) (code int, why string) {
	switch {
	case isOfAnotherSite(r): // it could not read the answer, but it could use up the watchers
		return http.StatusForbidden, "a page of another site must not ask for this"
	case g.tokenFile == "" && isLocal(r):
		return 0, ""
	case g.tokenFile == "":
		return http.StatusForbidden,
			"only programs of the relay's machine may ask for this; start the relay with --admin-token-file for others"
	}
	shown := shownToken(r)
	if shown == "" {
		return http.StatusUnauthorized, "this needs the admin token of the relay (--admin-token-file)"
	}
	return g.check(shown, sourceOf(r))
}

// check refuses a wrong token, and any token from a source that has shown too many wrong ones.
func (g *Guard) check(shown string, source netip.Prefix) (code int, why string) {
	token, err := g.token()
	if err != nil {
		return http.StatusInternalServerError, "the relay cannot read its admin token; see its --admin-token-file"
	}
	right := equal(token, shown)
	g.mu.Lock() // until the token is counted: guesses that come together are no more than others
	defer g.mu.Unlock()
	switch l := g.limiterLocked(source); {
	case l.Tokens() < 1:
		return http.StatusTooManyRequests, "too many wrong tokens; try again later"
	case right:
		return 0, ""
	default:
		l.Allow()
		return http.StatusUnauthorized, "this is not the admin token"
	}
}

// limiterLocked returns the limiter of the wrong tokens of a source.
func (g *Guard) limiterLocked(source netip.Prefix) *rate.Limiter {
	l, ok := g.wrong.Get(source)
	if !ok {
		l = rate.NewLimiter(rate.Every(failureEvery), failures)
		g.wrong.Add(source, l)
	}
	return l
}

// shownToken returns the token that a request shows: as Bearer, or as the password of Basic, which browsers ask for.
func shownToken(r *http.Request) string {
	if _, password, ok := r.BasicAuth(); ok {
		return password
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// isOfAnotherSite reports whether a page of another site makes a browser send the request. A user who follows a link to
// the page may.
func isOfAnotherSite(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	link := r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" &&
		r.URL.Path == page
	return (site == "cross-site" || site == "same-site") && !link
}

// isLocal reports whether a program of this machine sends the request, and not for others.
func isLocal(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !from.Addr().Unmap().IsLoopback() {
		return false
	}
	for _, header := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if r.Header.Get(header) != "" {
			return false
		}
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	to, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && to.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}

func sourceOf(r *http.Request) netip.Prefix {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	return transport.SourceOf(net.UDPAddrFromAddrPort(from))
}
