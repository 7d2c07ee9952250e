package rtsp

import (
	"encoding/base64"
	"errors"
	"net/url"
	"strings"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/base"

	"sluice/moqt"
	"sluice/player/catalog"
	"sluice/relay"
	"sluice/transport"
)

// request is a parsed URL of a client.
type request struct {
	namespace moqt.Namespace
	authority string
	token     string
	choice    choice // of players
}

var errPath = errors.New("the path must be the namespace of a broadcast, such as /live/camera")

// maxToken is longer than any token that the relay accepts.
const maxToken = 8 << 10

// readRequest parses a request of RTSP. The library has decoded the path.
func readRequest(path, query string, r *base.Request) (request, error) {
	q := request{namespace: strings.Split(strings.Trim(path, "/"), "/")}
	if q.namespace.Validate() != nil || q.namespace.IsReserved() || q.namespace[0] == "" {
		return q, errPath
	}
	if r.URL != nil {
		q.authority = r.URL.Host
	}
	q.token = tokenOf(query, r.Header["Authorization"])
	if len(q.token) > maxToken {
		q.token = "" // no token is so long
	}
	return q, nil
}

// tokenOf returns the token of a request: from the query (?token=…), or from the header, as a Bearer token or as the
// password of Basic authentication; or "".
func tokenOf(query string, header base.HeaderValue) string {
	if values, err := url.ParseQuery(query); err == nil && values.Get("token") != "" {
		return values.Get("token")
	}
	for _, h := range header {
		scheme, value, _ := strings.Cut(h, " ")
		value = strings.TrimSpace(value)
		switch strings.ToLower(scheme) {
		case "bearer":
			return value
		case "basic":
			if b, err := base64.StdEncoding.DecodeString(value); err == nil {
				_, password, _ := strings.Cut(string(b), ":")
				return password
			}
		}
	}
	return ""
}

// guest returns the relay's guest that asks for the request's namespace. Who may play it is who may subscribe to its
// catalog.
func (q *request) guest(conn *gortsplib.ServerConn, a relay.Action) relay.AuthRequest {
	ask := relay.AuthRequest{
		Kind: transport.RTSP, Remote: conn.NetConn().RemoteAddr(), Authority: q.authority, Path: "/", Action: a,
		Namespace: q.namespace, Tokens: q.tokens(),
	}
	if a == relay.ActionSubscribe {
		ask.Name = catalog.CommonName
	}
	return ask
}

// url returns the URL that the session names, for relays with several scopes.
func (q *request) url() string {
	url := "moqt://" + q.authority + "/"
	if _, err := transport.ParseURL(url); err != nil {
		return "moqt://localhost/"
	}
	return url
}

func (q *request) tokens() []moqt.Token {
	if q.token == "" {
		return nil
	}
	return []moqt.Token{{AliasType: moqt.AliasUseValue, Value: []byte(q.token)}}
}
