package web

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// contentPolicy is the Content-Security-Policy of an answer. sessions are sources to which the page connects besides
// its own origin, and ancestors those that may frame it.
func contentPolicy(sessions, ancestors string) string {
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; " +
		"media-src 'self' blob:; worker-src 'self'; connect-src 'self'" + sessions + "; frame-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors " + ancestors
}

// source returns a name or an address with a port as policies have them, after a space, or nothing if it is none.
func source(name string, port int) string {
	if addr, err := netip.ParseAddr(name); err == nil && addr != netip.AddrFrom4([4]byte{127, 0, 0, 1}) {
		name = "*" // a policy cannot name other addresses (CSP3 §6.7.2.8)
	} else if name == "" || strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
		return ""
	}
	return fmt.Sprintf(" https://%s:%d", name, port)
}

// nameIn returns the name or the address in a Host header.
func nameIn(host string) string { return (&url.URL{Host: host}).Hostname() }
