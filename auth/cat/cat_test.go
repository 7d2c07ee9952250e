package cat

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"sluice/auth"
	"sluice/auth/signed"
	"sluice/internal/testlimit"
	"sluice/moqt"
	"sluice/relay"
)

func newKey(t testing.TB, alg string) *jose.JSONWebKey {
	var key any
	var err error
	switch alg {
	case "ES256":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES384":
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "EdDSA":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	case "HS256":
		b := make([]byte, 32)
		_, err = rand.Read(b)
		key = b
	}
	require.NoError(t, err)
	return &jose.JSONWebKey{Key: key, KeyID: "key of " + alg}
}

func newScheme(t testing.TB, rules signed.Rules, keys ...*jose.JSONWebKey) *signed.Scheme {
	var set jose.JSONWebKeySet
	for _, k := range keys {
		set.Keys = append(set.Keys, *k)
	}
	b, err := json.Marshal(set)
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "keys.json")
	require.NoError(t, os.WriteFile(name, b, 0o600))
	k, err := signed.OpenKeys(name, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	s, err := signed.New(Format{}, k, rules)
	require.NoError(t, err)
	return s
}

func permission(t testing.TB, s string) auth.Permission {
	p, err := auth.ParsePermission(s)
	require.NoError(t, err)
	return p
}

func request(a relay.Action, ns moqt.Namespace, token moqt.Token) relay.AuthRequest {
	return relay.AuthRequest{Action: a, Namespace: ns, Name: "video", Tokens: []moqt.Token{token}}
}

func refusal(t testing.TB, s *signed.Scheme, r relay.AuthRequest) moqt.RequestErrorCode {
	_, err := s.Authorize(t.Context(), r)
	if err == nil {
		return none
	}
	var refused *moqt.RequestError
	require.ErrorAs(t, err, &refused)
	return refused.Code
}

const none moqt.RequestErrorCode = 0xffff

var live = moqt.Namespace{"live", "a"}

func TestSign(t *testing.T) {
	expires := time.Now().Add(time.Hour).Truncate(time.Second)
	for _, alg := range []string{"ES256", "ES384", "EdDSA", "HS256"} {
		key := newKey(t, alg)
		text, err := Sign(key, &signed.Claims{
			Issuer: "me", Subject: "camera", Audiences: []string{"relay"}, Expires: expires, Review: time.Minute,
		}, []auth.Permission{permission(t, "publish:live"), permission(t, "subscribe:*")})
		require.NoError(t, err)
		binary, err := base64.RawURLEncoding.DecodeString(text)
		require.NoError(t, err)
		tagged := append([]byte{0xd8, tagCWT}, binary...)
		s := newScheme(t, signed.Rules{Issuers: []string{"me"}, Audiences: []string{"relay"}}, newKey(t, "ES256"), key)
		before := time.Now()
		for _, token := range []moqt.Token{
			{Value: []byte(text)}, {Value: []byte(text + "==")}, {Value: binary}, {Value: tagged},
			{Type: TokenType, Value: binary}, {Type: TokenType, Value: []byte(text)},
			{Type: TokenType, Value: binary[1:]}, // without a tag
		} {
			grant, err := s.Authorize(t.Context(), request(relay.ActionPublish, live, token))
			require.NoError(t, err, alg)
			require.True(t, expires.Equal(grant.Expires))
			require.False(t, grant.Review.Before(before.Add(time.Minute)))
		}
		other := newScheme(t, signed.Rules{Audiences: []string{"relay"}}, newKey(t, alg))
		require.Equal(t, moqt.RequestUnauthorized,
			refusal(t, other, request(relay.ActionPublish, live, moqt.Token{Value: binary})))
		parsed, err := Format{}.Parse(binary)
		require.NoError(t, err)
		require.Equal(t, key.KeyID, parsed.KeyID())
		c, err := parsed.Claims()
		require.NoError(t, err)
		require.Equal(t, "camera", c.Subject)
	}
	public := newKey(t, "EdDSA").Public()
	_, err := Sign(&public, &signed.Claims{}, nil)
	require.ErrorContains(t, err, "needs a private key or a secret")
}

func TestPermissions(t *testing.T) {
	key := newKey(t, "HS256")
	s := newScheme(t, signed.Rules{}, key)
	allowed := func(token moqt.Token, a relay.Action, ns ...string) bool {
		return refusal(t, s, request(a, ns, token)) == none
	}
	make := func(texts ...string) moqt.Token {
		var permissions []auth.Permission
		for _, text := range texts {
			permissions = append(permissions, permission(t, text))
		}
		text, err := Sign(key, &signed.Claims{}, permissions)
		require.NoError(t, err)
		return moqt.Token{Value: []byte(text)}
	}
	publisher := make("publish:live")
	require.True(t, allowed(publisher, relay.ActionPublish, "live", "a"))
	require.True(t, allowed(publisher, relay.ActionPublishNamespace, "live"))
	require.False(t, allowed(publisher, relay.ActionPublishNamespace))
	require.False(t, allowed(publisher, relay.ActionSubscribe, "live"))
	viewer := make("subscribe:live", "discover:live", "discover:other")
	require.True(t, allowed(viewer, relay.ActionFetch, "live"))
	require.True(t, allowed(viewer, relay.ActionTrackStatus, "live"))
	require.True(t, allowed(viewer, relay.ActionSubscribeNamespace, "other"))
	require.True(t, allowed(viewer, relay.ActionSubscribeTracks, "live", "b"))
	require.False(t, allowed(viewer, relay.ActionSubscribeTracks, "other"), "it may not subscribe there")
	require.False(t, allowed(viewer, relay.ActionPublish, "live"))
	all := make("all:*")
	for a := range actions {
		require.True(t, allowed(all, a, "x"), a)
	}
	require.False(t, allowed(make(), relay.ActionSubscribe, "live"), "it allows nothing")
}

// signed2 signs claims that Sign would not make.
func signed2(t testing.TB, key *jose.JSONWebKey, headers, claims map[int64]any) moqt.Token {
	protected, payload := must(encoding.Marshal(headers)), must(encoding.Marshal(claims))
	signature := sum(key.Key.([]byte), toBeSigned(tagMac0, protected, payload))
	content := []any{protected, map[int64]any{}, payload, signature}
	return moqt.Token{Type: TokenType, Value: must(encoding.Marshal(cbor.Tag{Number: tagMac0, Content: content}))}
}

// The examples of the draft, §moqt claim.
func TestScopes(t *testing.T) {
	type list = []any
	b := func(s string) []byte { return []byte(s) }
	all := []int64{2, 3, 4, 6, 7}
	example, short := moqt.Namespace{"example", "com"}, moqt.Namespace{"example"}
	bob := list{all, list{b("example"), b("com"), nil}, b("/bob")}
	for _, c := range []struct {
		scope     list
		action    relay.Action
		namespace moqt.Namespace
		track     string
		want      bool
	}{
		{bob, relay.ActionPublish, example, "/bob", true},
		{bob, relay.ActionPublish, example, "", false},
		{bob, relay.ActionPublish, example, "/bob/123", false},
		{bob, relay.ActionPublish, short, "com/bob", false},
		{bob, relay.ActionPublish, example.Join(live), "/bob", false},
		{list{all, list{b("example"), b("com")}, b("/bob")}, relay.ActionPublish, example.Join(live), "/bob", true},
		{list{all, list{b("example"), b("com"), nil}, list{1, b("/b")}}, relay.ActionFetch, example, "/bob/123", true},
		{list{all, list{b("example"), list{1, b("u-")}, nil}, b("d")}, relay.ActionFetch,
			moqt.Namespace{"example", "u-"}, "d", true},
		{list{all, list{b("example"), list{1, b("u-")}, nil}, b("d")}, relay.ActionFetch,
			moqt.Namespace{"example", "U-a"}, "d", false},
		{list{all, list{b("example")}, list{2, b(".json")}}, relay.ActionPublish, example, "data.json", true},
		{list{all, list{b("example")}, list{2, b(".json")}}, relay.ActionPublish, example, "data.JSON", false},
		{list{all, list{nil}}, relay.ActionPublish, moqt.Namespace{}, "x", true},
		{list{all, list{nil}}, relay.ActionPublish, example, "x", false},
		{bob, relay.ActionPublishNamespace, example, "", true},
		{list{all, list{b("example"), nil}}, relay.ActionSubscribeTracks, short, "", false},
		{list{all, list{b("example")}, b("x")}, relay.ActionSubscribeTracks, short, "", false},
		{list{all, list{b("example")}}, relay.ActionSubscribeTracks, short, "", true},
		{list{[]int64{}}, relay.ActionPublish, example, "x", false},
	} {
		claims, err := decodeClaims(must(encoding.Marshal(map[int64]any{claimMOQT: list{c.scope}})))
		require.NoError(t, err)
		r := relay.AuthRequest{Action: c.action, Namespace: c.namespace, Name: c.track}
		require.Equal(t, c.want, claims.Allows(&r), "%v %v", c.scope, r)
	}
	claims, err := decodeClaims(must(encoding.Marshal(map[int64]any{claimMOQT: list{
		list{[]int64{6, 99}, list{b("a/b"), list{1, b("u-")}, list{2, b("z")}, nil}, list{2, b(".json")}},
		list{[]int64{2}},
	}})))
	require.NoError(t, err)
	require.Equal(t, "PUBLISH, action 99 in namespaces a%2Fb/u-…/…z/, track ….json", claims.Scopes[0].String())
	require.Equal(t, "PUBLISH_NAMESPACE in namespaces …", claims.Scopes[1].String())
}

func TestMalformedTokens(t *testing.T) {
	key := newKey(t, "HS256")
	s := newScheme(t, signed.Rules{}, key)
	scope := []any{[]any{[]int64{2, 6}}}
	ok, hs := map[int64]any{claimMOQT: scope}, map[int64]any{headerAlg: algHMAC}
	with := func(k int64, v any) map[int64]any { return map[int64]any{claimMOQT: scope, k: v} }
	scopes := func(v any) map[int64]any { return map[int64]any{claimMOQT: v} }
	const malformed, unauthorized = moqt.RequestMalformedAuthToken, moqt.RequestUnauthorized
	for _, c := range []struct {
		headers, claims map[int64]any
		want            moqt.RequestErrorCode
	}{
		{hs, ok, none},
		{hs, with(claimIssuedAt, 5), none},
		{hs, with(-70000, "private"), none},
		{hs, with(8, map[int64]any{3: []byte("jkt")}), malformed},
		{hs, with(999, 1), malformed},
		{hs, with(-1, 1), malformed},
		{hs, with(claimExpires, "soon"), malformed},
		{hs, with(claimExpires, 1), moqt.RequestExpiredAuthToken},
		{hs, with(claimExpires, 9e9), none},
		{hs, with(claimAudience, "relay"), unauthorized},
		{hs, with(claimReview, 0), none},
		{hs, with(claimReview, 0.5), unauthorized},
		{hs, with(claimReview, -1), malformed},
		{hs, with(claimReview, 1e300), none},
		{hs, scopes([]any{[]any{}}), malformed},
		{hs, scopes([]any{[]any{[]int64{6}, []any{}}}), malformed},
		{hs, scopes([]any{[]any{[]int64{6}, []any{nil, []byte("a")}}}), malformed},
		{hs, scopes([]any{[]any{[]int64{6}, []any{"text"}}}), malformed},
		{hs, scopes([]any{[]any{[]int64{6}, []any{[]any{3, []byte("a")}}}}), malformed},
		{hs, scopes([]any{[]any{[]int64{6}, []any{[]byte("a")}, nil}}), malformed},
		{hs, scopes([]any{[]any{"publish"}}), malformed},
		{hs, scopes("all"), malformed},
		{map[int64]any{headerAlg: algHMAC, headerCrit: []int64{1}}, ok, malformed},
		{map[int64]any{headerAlg: algHMAC, headerKID: "text"}, ok, malformed},
		{map[int64]any{headerAlg: algHMAC, headerKID: []byte("another")}, ok, unauthorized},
		{map[int64]any{headerAlg: -7}, ok, malformed},
		{map[int64]any{headerAlg: algDottedHMAC}, ok, malformed},
		{map[int64]any{}, ok, malformed},
	} {
		r := request(relay.ActionPublish, live, signed2(t, key, c.headers, c.claims))
		require.Equal(t, c.want, refusal(t, s, r), "%v %v", c.headers, c.claims)
	}
	for _, value := range []string{"", "\xd2", "0o", "a.b.c", "o*.o.o", "\xd1\x84\x40\xa0\x40\x40", "oQ.oQ.oQ"} {
		r := request(relay.ActionPublish, live, moqt.Token{Type: TokenType, Value: []byte(value)})
		require.Equal(t, malformed, refusal(t, s, r), "%q", value)
	}
	for _, value := range []string{"plain", "eyJ.e30.x", "o", ""} {
		require.False(t, Format{}.Recognizes(moqt.Token{Value: []byte(value)}), value)
	}
}

// Whoever repeats a claim could mean the claim that the relay does not read.
func TestRepeatedClaims(t *testing.T) {
	_, err := decodeClaims([]byte{0xa2, claimExpires, 0x01, claimExpires, 0x02})
	require.ErrorContains(t, err, "malformed")
}

// A token that is revalidated is refused as soon as it is not acceptable any more (moqt-reval).
func TestRevalidation(t *testing.T) {
	key := newKey(t, "HS256")
	name := filepath.Join(t.TempDir(), "keys.json")
	b, err := key.MarshalJSON()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, b, 0o600))
	synctest.Test(t, func(t *testing.T) {
		keys, err := signed.OpenKeys(name, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		s, err := signed.New(Format{}, keys, signed.Rules{})
		require.NoError(t, err)
		text, err := Sign(key, &signed.Claims{Review: time.Minute}, []auth.Permission{permission(t, "all:*")})
		require.NoError(t, err)
		r := request(relay.ActionPublish, live, moqt.Token{Value: []byte(text)})
		grant, err := s.Authorize(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, time.Now().Add(time.Minute), grant.Review)
		time.Sleep(time.Minute)
		require.False(t, s.Changed())
		require.Equal(t, none, refusal(t, s, r))
		other, err := newKey(t, "ES256").MarshalJSON()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, other, 0o600))
		time.Sleep(time.Minute)
		require.True(t, s.Changed())
		require.Equal(t, moqt.RequestUnauthorized, refusal(t, s, r))
	})
}

// FuzzToken checks that no token, whatever its form, is accepted without a signature of the key.
func FuzzToken(f *testing.F) {
	key := newKey(f, "HS256")
	for _, alg := range []string{"HS256", "EdDSA", "ES256"} {
		text, err := Sign(newKey(f, alg), &signed.Claims{
			Issuer: "me", Audiences: []string{"relay"}, Expires: time.Unix(9e9, 0), Review: time.Minute,
		}, []auth.Permission{permission(f, "publish:live"), permission(f, "all:*")})
		require.NoError(f, err)
		binary, err := base64.RawURLEncoding.DecodeString(text)
		require.NoError(f, err)
		f.Add([]byte(text))
		f.Add(binary)
	}
	for _, v := range readVectors(f).Scopes {
		f.Add([]byte(v.Token))
	}
	s := newScheme(f, signed.Rules{}, key)
	f.Fuzz(func(t *testing.T, b []byte) {
		r := request(relay.ActionPublish, live, moqt.Token{Type: TokenType, Value: b})
		testlimit.Run(t, len(b), 1000, func() {
			require.NotEqual(t, none, refusal(t, s, r))
			if m, err := parseMessage(b); err == nil {
				checkClaims(t, m.payload)
			}
			checkClaims(t, b)
		})
	})
}

// checkClaims checks that claims which are decoded can be used.
func checkClaims(t *testing.T, payload []byte) {
	c, err := decodeClaims(payload)
	if err != nil {
		return
	}
	require.GreaterOrEqual(t, c.Review, time.Duration(0))
	for a := range actions {
		c.Allows(&relay.AuthRequest{Action: a, Namespace: live, Name: "video"})
	}
	for _, s := range c.Scopes {
		require.NotEmpty(t, s.String())
	}
}

// A token that is written in another way counts for the same quota.
func TestFormsOfATokenShareAQuota(t *testing.T) {
	key := newKey(t, "ES256")
	s := newScheme(t, signed.Rules{}, key)
	text, err := Sign(key, &signed.Claims{}, []auth.Permission{permission(t, "all:*")})
	require.NoError(t, err)
	binary, err := base64.RawURLEncoding.DecodeString(text)
	require.NoError(t, err)
	subjects := make(map[string]bool)
	for _, value := range []string{text, text + "=", string(binary), string(binary[1:])} {
		grant, err := s.Authorize(t.Context(),
			request(relay.ActionPublish, live, moqt.Token{Type: TokenType, Value: []byte(value)}))
		require.NoError(t, err)
		subjects[grant.Subject] = true
	}
	require.Len(t, subjects, 1)
	require.NotContains(t, subjects, "")
}
