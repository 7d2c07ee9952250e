package hook

import (
	"encoding/json"
	"net"
	"net/netip"
	"unicode/utf8"

	"sluice/auth"
	"sluice/moqt"
	"sluice/relay"
	"sluice/transport"
)

// query is the question to the service.
type query struct {
	Action    string  `json:"action"`          // publish, subscribe or discover, as in token files
	Message   string  `json:"message"`         // of the peer, such as PUBLISH_NAMESPACE
	Namespace string  `json:"namespace"`       // its fields separated by slashes, other bytes as %xx
	Track     *string `json:"track,omitempty"` // other bytes as %xx; absent in requests about namespaces
	Tokens    []token `json:"tokens"`
	Authority string  `json:"authority"` // of the URL that the peer has dialed
	Path      string  `json:"path"`
	Address   string  `json:"address"`   // of the peer, without a port: so its sessions have decisions in common
	Transport string  `json:"transport"` // quic or webtransport
}

// token is a token of the peer: text if it is valid UTF-8, else in base64.
type token struct {
	Type   uint64 `json:"type"`
	Value  string `json:"value,omitempty"`
	Base64 []byte `json:"base64,omitempty"`
}

func newQuery(r *relay.AuthRequest) query {
	q := query{
		Action: auth.Word(r.Action), Message: r.Action.String(), Namespace: auth.NamespaceText(r.Namespace),
		Tokens: make([]token, 0, len(r.Tokens)), Authority: r.Authority, Path: r.Path,
		Address: addressOf(r.Remote), Transport: r.Kind.String(),
	}
	if auth.HasName(r.Action) {
		name := auth.NamespaceText(moqt.Namespace{r.Name})
		q.Track = &name
	}
	for _, t := range r.Tokens {
		q.Tokens = append(q.Tokens, newToken(t))
	}
	return q
}

func newToken(t moqt.Token) token {
	if utf8.Valid(t.Value) {
		return token{Type: t.Type, Value: string(t.Value)}
	}
	return token{Type: t.Type, Base64: t.Value}
}

// addressOf returns the address of a peer without its port.
func addressOf(a net.Addr) string {
	if a == nil {
		return ""
	}
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return a.String()
	}
	return ap.Addr().Unmap().WithZone("").String()
}

// sourceOf returns whom a query counts for: hosts have as many IPv6 addresses as they like.
func sourceOf(a net.Addr) netip.Prefix {
	if a == nil {
		return netip.Prefix{}
	}
	return transport.SourceOf(a)
}

func (q *query) encode() ([]byte, error) { return json.Marshal(q) }
