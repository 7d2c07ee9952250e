package transport

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

const (
	defaultPort  = 443
	maxURLLength = 8192 // of the New Session URI in GOAWAY (draft-ietf-moq-transport-18 §10.4)
)

// URL is a parsed MoQ URL (draft-ietf-moq-transport-18 §3.1.1).
type URL struct {
	Kind      Kind   // moqt: RawQUIC, https: WebTransport
	Authority string // as in the URL; SETUP carries it in AUTHORITY
	Host      string // name or IP address, without brackets
	Port      uint16 // 443 if the URL has none
	Path      string // with "?" and the query if there is one; SETUP carries it in PATH
	Fragment  Fragment
}

// Fragment is the part after "#" in a MoQ URL: a type, a colon, and a value (percent-decoded here). It is meant for the
// client, and not sent.
type Fragment struct{ Type, Value string }

// ParseURL parses a moqt:// or https:// URL.
func ParseURL(s string) (*URL, error) {
	u, err := parseURL(s)
	if err != nil {
		return nil, fmt.Errorf("MoQ URL %q: %w", WithoutQuery(s), err)
	}
	return u, nil
}

func parseURL(s string) (*URL, error) {
	if len(s) > maxURLLength {
		return nil, fmt.Errorf("longer than %d bytes", maxURLLength)
	}
	if i := strings.IndexFunc(s, notInURI); i >= 0 {
		return nil, fmt.Errorf("character %q must be percent-encoded", []rune(s[i:])[0])
	}
	p, err := url.Parse(s)
	if err != nil {
		return nil, errors.Unwrap(err) // a *url.Error, which repeats the URL
	}
	_, authority, _ := strings.Cut(s, "//")
	if i := strings.IndexAny(authority, "/?#"); i >= 0 {
		authority = authority[:i]
	}
	u := &URL{Authority: authority, Host: p.Hostname(), Port: defaultPort, Path: p.EscapedPath()}
	switch p.Scheme {
	case "moqt":
		u.Kind = RawQUIC
	case "https":
		u.Kind = WebTransport
	default:
		return nil, errors.New("must be moqt://host:port for raw QUIC, or https://host:port/path for WebTransport")
	}
	if p.User != nil {
		return nil, errors.New("user names and passwords are not supported")
	}
	if u.Host == "" {
		return nil, errors.New("the host is missing")
	}
	if strings.IndexFunc(u.Host, notInURI) >= 0 {
		return nil, errors.New("the host must be ASCII (internationalized names in their xn-- form)")
	}
	if p.RawQuery != "" || p.ForceQuery {
		u.Path += "?" + p.RawQuery
	}
	if port := p.Port(); port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("port %s: must be between 1 and 65535", port)
		}
		u.Port = uint16(n)
	}
	if strings.Contains(s, "#") {
		u.Fragment, err = parseFragment(p.Fragment)
	}
	return u, err
}

// parseFragment checks the rules for fragments in draft-ietf-moq-transport-18 §3.1.2.
func parseFragment(s string) (Fragment, error) {
	typ, value, ok := strings.Cut(s, ":")
	if !ok || typ == "" || strings.Trim(typ, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return Fragment{}, errors.New("the fragment must be type:value, with a type of a-z, 0-9 and hyphens")
	}
	return Fragment{typ, value}, nil
}

// notInURI reports whether r is neither reserved nor unreserved nor "%" (RFC 3986 §2).
func notInURI(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"<>\\^`{|}", r)
}

// String returns the URL in its shortest form.
func (u *URL) String() string {
	s := "moqt://" + u.Authority + u.Path
	if u.Kind == WebTransport {
		s = "https://" + u.Authority + u.Path
	}
	if u.Fragment.Type != "" {
		s += "#" + u.Fragment.Type + ":" + (&url.URL{Fragment: u.Fragment.Value}).EscapedFragment()
	}
	return s
}

// WithoutQuery returns a URL, or the path of one, without its query and fragment. Some relays take tokens there, so
// logs, errors and the status of sessions show this part only.
func WithoutQuery(s string) string {
	if i := strings.IndexAny(s, "?#"); i >= 0 {
		return s[:i]
	}
	return s
}

// hostPort returns the address to connect to.
func (u *URL) hostPort() string { return net.JoinHostPort(u.Host, strconv.Itoa(int(u.Port))) }
