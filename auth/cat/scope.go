package cat

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"sluice/auth"
	"sluice/auth/signed"
	"sluice/moqt"
	"sluice/relay"
)

// Actions of the moqt claim that the relay looks at.
const (
	publishNamespace   = 2
	subscribeNamespace = 3
	subscribe          = 4
	publish            = 6
	fetch              = 7
	trackStatus        = 8
)

// actions are the actions that a request needs, all of them in one scope.
var actions = map[relay.Action][]int64{
	relay.ActionPublish:            {publish},
	relay.ActionPublishNamespace:   {publishNamespace},
	relay.ActionSubscribe:          {subscribe},
	relay.ActionFetch:              {fetch},
	relay.ActionTrackStatus:        {trackStatus},
	relay.ActionSubscribeNamespace: {subscribeNamespace},
	relay.ActionSubscribeTracks:    {subscribeNamespace, subscribe},
}

// actionNames are the names of actions, by their numbers.
var actionNames = []string{
	"CLIENT_SETUP", "SERVER_SETUP", "PUBLISH_NAMESPACE", "SUBSCRIBE_NAMESPACE", "SUBSCRIBE", "REQUEST_UPDATE",
	"PUBLISH", "FETCH", "TRACK_STATUS",
}

// scope is a moqt-scope of the draft.
type scope struct {
	actions []int64
	fields  []match // of the namespace, from its first field
	ends    bool    // namespaces have no more fields
	track   *match  // nil: all tracks
}

// Allows implements signed.Scope.
func (s *scope) Allows(r *relay.AuthRequest) bool {
	if r.Action == relay.ActionSubscribeTracks && (s.ends || s.track != nil) {
		return false
	}
	for _, a := range actions[r.Action] {
		if !slices.Contains(s.actions, a) {
			return false
		}
	}
	return s.matches(r.Namespace) && (s.track == nil || !auth.HasName(r.Action) || s.track.matches(r.Name))
}

func (s *scope) matches(ns moqt.Namespace) bool {
	if len(ns) < len(s.fields) || s.ends && len(ns) > len(s.fields) {
		return false
	}
	for i, m := range s.fields {
		if !m.matches(ns[i]) {
			return false
		}
	}
	return true
}

// String implements signed.Scope.
func (s *scope) String() string {
	var b strings.Builder
	for i, a := range s.actions {
		if i > 0 {
			b.WriteString(", ")
		}
		if 0 <= a && a < int64(len(actionNames)) {
			b.WriteString(actionNames[a])
		} else {
			fmt.Fprintf(&b, "action %d", a)
		}
	}
	b.WriteString(" in namespaces ")
	for _, f := range s.fields {
		b.WriteString(f.String() + "/")
	}
	if !s.ends {
		b.WriteString("…")
	}
	if s.track != nil {
		b.WriteString(", track " + s.track.String())
	}
	return b.String()
}

// Kinds of match.
const (
	exact = iota
	prefix
	suffix
)

// match is a bin-match of the draft.
type match struct {
	kind  int64
	value string
}

func (m *match) matches(s string) bool {
	switch m.kind {
	case prefix:
		return strings.HasPrefix(s, m.value)
	case suffix:
		return strings.HasSuffix(s, m.value)
	}
	return s == m.value
}

// String writes the value as in a namespace, with … for the rest.
func (m *match) String() string {
	text := auth.NamespaceText(moqt.Namespace{m.value})
	switch m.kind {
	case prefix:
		return text + "…"
	case suffix:
		return "…" + text
	}
	return text
}

// decodeScopes decodes the moqt claim.
func decodeScopes(raw cbor.RawMessage) (scopes []signed.Scope, err error) {
	var list [][]cbor.RawMessage
	if err := decoding.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	for _, parts := range list {
		s, err := decodeScope(parts)
		if err != nil {
			return nil, err
		}
		scopes = append(scopes, s)
	}
	return scopes, nil
}

func decodeScope(parts []cbor.RawMessage) (*scope, error) {
	s := &scope{}
	if len(parts) < 1 || len(parts) > 3 {
		return nil, fmt.Errorf("a scope has %d parts: must be between 1 and 3", len(parts))
	}
	if err := decoding.Unmarshal(parts[0], &s.actions); err != nil {
		return nil, fmt.Errorf("the actions of a scope: %w", err)
	}
	if len(parts) > 1 {
		if err := s.decodeNamespace(parts[1]); err != nil {
			return nil, fmt.Errorf("the namespace of a scope: %w", err)
		}
	}
	if len(parts) > 2 {
		m, err := decodeMatch(parts[2])
		if err != nil {
			return nil, fmt.Errorf("the track of a scope: %w", err)
		}
		s.track = &m
	}
	return s, nil
}

func (s *scope) decodeNamespace(raw cbor.RawMessage) error {
	var list []cbor.RawMessage
	if err := decoding.Unmarshal(raw, &list); err != nil {
		return err
	}
	if len(list) == 0 {
		return errors.New("it has no matches; leave it out to allow all namespaces")
	}
	if last := len(list) - 1; isNil(list[last]) {
		s.ends, list = true, list[:last]
	}
	for _, raw := range list {
		m, err := decodeMatch(raw)
		if err != nil {
			return err
		}
		s.fields = append(s.fields, m)
	}
	return nil
}

func isNil(raw cbor.RawMessage) bool { return len(raw) == 1 && raw[0] == 0xf6 }

// Major types of CBOR (RFC 8949 §3.1).
const (
	majorBytes = 2
	majorArray = 4
)

// decodeMatch decodes a byte string, which is an exact match, or a kind and a byte string.
func decodeMatch(raw cbor.RawMessage) (m match, err error) {
	var value []byte
	switch raw[0] >> 5 {
	case majorBytes:
		err = decoding.Unmarshal(raw, &value)
	case majorArray:
		var pair struct {
			_     struct{} `cbor:",toarray"`
			Kind  int64
			Value []byte
		}
		err = decoding.Unmarshal(raw, &pair)
		m.kind, value = pair.Kind, pair.Value
		if err == nil && m.kind != prefix && m.kind != suffix {
			err = fmt.Errorf("match type %d: must be 1 (prefix) or 2 (suffix)", m.kind)
		}
	default:
		err = errors.New("a match must be a byte string, or an array of a match type and a byte string")
	}
	m.value = string(value)
	return m, err
}
