package auth

import (
	"fmt"
	"net/url"
	"strings"

	"sluice/moqt"
	"sluice/relay"
)

// Words for what peers may do, as in token files.
const (
	Publish   = "publish"
	Subscribe = "subscribe"
	Discover  = "discover"
)

// Word returns the word for an action: Publish, Subscribe or Discover.
func Word(a relay.Action) string {
	switch a {
	case relay.ActionPublish, relay.ActionPublishNamespace:
		return Publish
	case relay.ActionSubscribeNamespace, relay.ActionSubscribeTracks:
		return Discover
	}
	return Subscribe
}

// HasName reports whether an action is about a track. The others are about a namespace or a prefix.
func HasName(a relay.Action) bool {
	switch a {
	case relay.ActionPublish, relay.ActionSubscribe, relay.ActionFetch, relay.ActionTrackStatus:
		return true
	}
	return false
}

// NamespaceText writes a namespace as in token files and on the command line: its fields separated by slashes, other
// bytes as %xx. It is unambiguous. The namespace without fields is "".
func NamespaceText(ns moqt.Namespace) string {
	fields := make([]string, len(ns))
	for i, f := range ns {
		fields[i] = url.PathEscape(f)
	}
	return strings.Join(fields, "/")
}

// ParsePrefix parses NamespaceText's output; "*" is the prefix of all namespaces.
func ParsePrefix(s string) (ns moqt.Namespace, err error) {
	if s == "*" {
		return ns, nil
	}
	for text := range strings.SplitSeq(strings.Trim(s, "/"), "/") {
		field, err := url.PathUnescape(text)
		if err != nil {
			return nil, fmt.Errorf("namespace prefix %q: write other bytes as %%xx: %w", s, err)
		}
		ns = append(ns, field)
	}
	if err := ns.Validate(); err != nil {
		return nil, fmt.Errorf("namespace prefix %q: %w; write * for all namespaces", s, err)
	}
	return ns, nil
}
