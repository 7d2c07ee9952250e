package service

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// adminGuard refuses requests that no client of the admin address sends.
//
// A web page in an operator's browser may reach the admin address, but the browser does not let it read the answer: the
// page has another origin. DNS rebinding gets around that. The page's own host name is made to resolve to 127.0.0.1,
// and the browser then takes the answers for the page's. Such a request has the page's host name in its Host header. So
// only names that nobody else can control are accepted: addresses, localhost, and names that the operator has given.
type adminGuard struct {
	flag  string
	hosts []string
	next  http.Handler
}

func (g *adminGuard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !g.accepts(r.Host):
		http.Error(w, fmt.Sprintf("host %q: must be an address, localhost, or a name that is given by %s",
			r.Host, g.flag), http.StatusMisdirectedRequest)
	case r.ContentLength != 0: // -1 if it is unknown
		w.Header().Set("Connection", "close") // otherwise the server reads the body to find the next request
		http.Error(w, "a request must have no body", http.StatusRequestEntityTooLarge)
	default:
		g.next.ServeHTTP(w, r)
	}
}

// accepts reports whether clients may call the admin address by the name in a Host header. Only HTTP/1.0 lets a client
// send none, and no browser does.
func (g *adminGuard) accepts(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil || host == "" {
		return true
	}
	return slices.ContainsFunc(g.hosts, func(h string) bool { return strings.EqualFold(h, host) })
}
