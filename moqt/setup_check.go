package moqt

import (
	"net/url"
	"strings"
)

// checkSetup checks what draft §10.2.2 and §10.3.1 demand of each role and transport.
func (c Context) checkSetup(m *Setup) error {
	notHere := !c.Server || c.WebTransport
	switch {
	case m.Path != nil && notHere:
		return &ProtocolError{SessionInvalidPath, "PATH is for clients on raw QUIC"}
	case m.Authority != nil && notHere:
		return &ProtocolError{SessionInvalidAuthority, "AUTHORITY is for clients on raw QUIC"}
	case m.Path != nil && !validPath(*m.Path):
		return &ProtocolError{SessionMalformedPath, "PATH is not a path and query of RFC 3986"}
	case m.Authority != nil && !validAuthority(*m.Authority):
		return &ProtocolError{SessionMalformedAuthority, "AUTHORITY is not an authority of RFC 3986"}
	}
	for _, t := range m.AuthorizationTokens {
		if c.Server && (t.AliasType == AliasDelete || t.AliasType == AliasUse) {
			return violation("SETUP uses a token alias that cannot exist yet")
		}
	}
	return nil
}

// Character classes of RFC 3986 §2, besides letters, digits and "_".
const (
	unreserved = "-.~"
	subDelims  = "!$&'()*+,;="
)

// validPath reports whether s is path-abempty [ "?" query ] (RFC 3986 §3.3, §3.4).
func validPath(s string) bool {
	path, query, _ := strings.Cut(s, "?")
	if path != "" && path[0] != '/' {
		return false
	}
	return validURIText(path, unreserved+subDelims+":@/") && validURIText(query, unreserved+subDelims+":@/?")
}

// validAuthority reports whether s is an authority with a host that is not empty (RFC 3986 §3.2, draft §3.1.1).
func validAuthority(s string) bool {
	if !validURIText(s, unreserved+subDelims+":@[]") {
		return false
	}
	u, err := url.Parse("moqt://" + s)
	return err == nil && u.Hostname() != ""
}

// validURIText reports whether s consists of letters, digits, "_", percent-encoded bytes and the characters in others.
func validURIText(s, others string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '%':
			if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
				return false
			}
			i += 2
		case isLiteral(c), strings.IndexByte(others, c) >= 0:
		default:
			return false
		}
	}
	return true
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
