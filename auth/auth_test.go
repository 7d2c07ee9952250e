package auth

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/relay"
)

// scheme answers always the same.
type scheme struct {
	grant   relay.Grant
	err     error
	changed bool
	asked   int
}

func (s *scheme) Authorize(context.Context, relay.AuthRequest) (relay.Grant, error) {
	s.asked++
	return s.grant, s.err
}

func (s *scheme) Changed() bool {
	s.asked++
	return s.changed
}

func TestAny(t *testing.T) {
	refuses := func(code moqt.RequestErrorCode) *scheme { return &scheme{err: Refuse(code, "")} }
	unauthorized, expired := refuses(moqt.RequestUnauthorized), refuses(moqt.RequestExpiredAuthToken)
	down, failed := refuses(moqt.RequestInternalError), &scheme{err: errors.New("broken")}
	busy := refuses(moqt.RequestExcessiveLoad)
	malformed := refuses(moqt.RequestMalformedAuthToken)
	for _, c := range []struct {
		any  Any
		want *scheme
	}{
		{Any{unauthorized, expired}, expired},
		{Any{expired, unauthorized}, expired},
		{Any{unauthorized, malformed, unauthorized}, malformed},
		{Any{malformed, expired}, expired},
		{Any{expired, down, malformed}, down},
		{Any{busy, expired}, busy},
		{Any{down, failed}, failed},
	} {
		_, err := c.any.Authorize(t.Context(), relay.AuthRequest{})
		require.Equal(t, c.want.err, err)
	}
	allows, unasked := &scheme{grant: relay.Grant{Expires: time.Now()}}, &scheme{}
	granted, err := Any{failed, allows, unasked}.Authorize(t.Context(), relay.AuthRequest{})
	require.NoError(t, err)
	require.Equal(t, allows.grant, granted, "as long as the scheme says")
	require.Zero(t, unasked.asked)
	_, err = Any{}.Authorize(t.Context(), relay.AuthRequest{})
	require.Error(t, err, "nothing allows it")
}

func TestAnyAsksAllSchemesForChanges(t *testing.T) {
	first, second := &scheme{changed: true}, &scheme{changed: true}
	require.True(t, Any{first, relay.AllowAll{}, second}.Changed())
	require.Equal(t, []int{1, 1}, []int{first.asked, second.asked})
	require.False(t, Any{relay.AllowAll{}}.Changed())
}

func TestNamespaceText(t *testing.T) {
	for _, ns := range []moqt.Namespace{
		{"live"}, {"live", "a b"}, {"a/b", "%"}, {"*"}, {"\xff\x00", "ü"}, {".", ".."},
	} {
		text := NamespaceText(ns)
		parsed, err := ParsePrefix(text)
		require.NoError(t, err, text)
		require.Equal(t, ns, parsed, text)
	}
	require.Equal(t, "live/a%2Fb%20c/%2A", NamespaceText(moqt.Namespace{"live", "a/b c", "*"}))
	all, err := ParsePrefix("*")
	require.NoError(t, err)
	require.Empty(t, all)
	for _, text := range []string{"", "a//b", "%zz"} {
		_, err := ParsePrefix(text)
		require.ErrorContains(t, err, "namespace prefix", text)
	}
}

func TestWords(t *testing.T) {
	for a, want := range map[relay.Action]string{
		relay.ActionPublish: Publish, relay.ActionPublishNamespace: Publish,
		relay.ActionSubscribe: Subscribe, relay.ActionFetch: Subscribe, relay.ActionTrackStatus: Subscribe,
		relay.ActionSubscribeNamespace: Discover, relay.ActionSubscribeTracks: Discover,
	} {
		require.Equal(t, want, Word(a), a)
	}
	require.True(t, HasName(relay.ActionFetch))
	require.False(t, HasName(relay.ActionPublishNamespace))
}

func TestPermissions(t *testing.T) {
	live := moqt.Namespace{"live", "a"}
	for _, c := range []struct {
		text   string
		action relay.Action
		ns     moqt.Namespace
		want   bool
	}{
		{"publish:live", relay.ActionPublish, live, true},
		{"publish:live/a", relay.ActionPublishNamespace, live, true},
		{"publish:live/a/b", relay.ActionPublishNamespace, live, false},
		{"publish:liv", relay.ActionPublish, live, false},
		{"publish:live", relay.ActionSubscribe, live, false},
		{"subscribe:*", relay.ActionFetch, live, true},
		{"subscribe:*", relay.ActionSubscribeTracks, live, false},
		{"discover:live", relay.ActionSubscribeTracks, live, true},
		{"discover:live", relay.ActionSubscribeNamespace, nil, false},
		{"all:*", relay.ActionSubscribeNamespace, nil, true},
		{"all:%6cive", relay.ActionPublish, live, true},
	} {
		p, err := ParsePermission(c.text)
		require.NoError(t, err)
		require.Equal(t, c.want, p.Allows(&relay.AuthRequest{Action: c.action, Namespace: c.ns}), c.text)
		again, err := ParsePermission(p.String())
		require.NoError(t, err)
		require.Equal(t, p, again)
		require.True(t, IsPermission(c.text))
	}
	for text, want := range map[string]string{
		"fly:live":       `permission: "fly": must be publish, subscribe, discover or all`,
		"publish":        "write * for all namespaces",
		"publish:":       "write * for all namespaces",
		"publish:a//b":   "empty track namespace field",
		"publish:%zz":    "write other bytes as %xx",
		"Publish:live":   "must be publish",
		" publish:live ": "must be publish",
	} {
		_, err := ParsePermission(text)
		require.ErrorContains(t, err, want)
	}
	require.False(t, IsPermission("openid"))
	require.False(t, IsPermission("urn:x"))
}
