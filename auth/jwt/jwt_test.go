package jwt

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"

	"sluice/auth"
	"sluice/auth/signed"
	"sluice/internal/testlimit"
	"sluice/moqt"
	"sluice/relay"
)

func newKey(t testing.TB, alg jose.SignatureAlgorithm) *jose.JSONWebKey {
	var key any
	var err error
	switch alg {
	case jose.RS256, jose.PS256:
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	case jose.ES256:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case jose.ES384:
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case jose.EdDSA:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	}
	require.NoError(t, err)
	return &jose.JSONWebKey{Key: key, KeyID: "key of " + string(alg), Algorithm: string(alg)}
}

// newScheme returns a Scheme with the public halves of some keys.
func newScheme(t testing.TB, rules signed.Rules, keys ...*jose.JSONWebKey) *signed.Scheme {
	var set jose.JSONWebKeySet
	for _, k := range keys {
		set.Keys = append(set.Keys, k.Public())
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

// sign signs any claims and header.
func sign(t testing.TB, key *jose.JSONWebKey, claims any) string {
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: key}, &jose.SignerOptions{})
	require.NoError(t, err)
	s, err := jwt.Signed(signer).Claims(claims).Serialize()
	require.NoError(t, err)
	return s
}

type object = map[string]any

func in(d time.Duration) int64 { return time.Now().Add(d).Unix() }

func request(a relay.Action, ns string, tokens ...string) relay.AuthRequest {
	r := relay.AuthRequest{Action: a, Namespace: strings.Split(ns, "/")}
	for _, t := range tokens {
		r.Tokens = append(r.Tokens, moqt.Token{AliasType: moqt.AliasUseValue, Value: []byte(t)})
	}
	return r
}

// refusal returns the code with which a request is refused; none if it is allowed.
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

func TestAlgorithms(t *testing.T) {
	for _, alg := range algorithms {
		key, other := newKey(t, alg), newKey(t, alg)
		s := newScheme(t, signed.Rules{}, key)
		claims := object{"exp": in(time.Hour), "scope": "subscribe:live"}
		require.Equal(t, none, refusal(t, s, request(relay.ActionSubscribe, "live/a", sign(t, key, claims))), alg)
		require.Equal(t, moqt.RequestUnauthorized,
			refusal(t, s, request(relay.ActionSubscribe, "live/a", sign(t, other, claims))), alg)
	}
}

func TestScope(t *testing.T) {
	key := newKey(t, jose.EdDSA)
	s := newScheme(t, signed.Rules{}, key)
	token := sign(t, key, object{
		"exp": in(time.Hour), "scope": "openid publish:live/a  subscribe:live discover:%2f urn:x",
	})
	for _, c := range []struct {
		action relay.Action
		ns     string
		want   moqt.RequestErrorCode
	}{
		{relay.ActionPublish, "live/a", none},
		{relay.ActionPublishNamespace, "live/a/b", none},
		{relay.ActionPublishNamespace, "live", moqt.RequestUnauthorized},
		{relay.ActionPublish, "live/b", moqt.RequestUnauthorized},
		{relay.ActionFetch, "live/b", none},
		{relay.ActionSubscribeTracks, "live", moqt.RequestUnauthorized},
	} {
		require.Equal(t, c.want, refusal(t, s, request(c.action, c.ns, token)), c)
	}
	require.Equal(t, none, refusal(t, s, relay.AuthRequest{
		Action: relay.ActionSubscribeNamespace, Namespace: moqt.Namespace{"/"},
		Tokens: request(0, "", token).Tokens,
	}))
	for claims, want := range map[string]moqt.RequestErrorCode{
		`{"exp": 9e9, "scope": "publish:a//b"}`:          moqt.RequestMalformedAuthToken,
		`{"exp": 9e9, "scope": ["publish:*"]}`:           moqt.RequestMalformedAuthToken,
		`{"exp": 9e9}`:                                   moqt.RequestUnauthorized,
		`{"scope": "publish:*"}`:                         moqt.RequestMalformedAuthToken,
		`{"exp": "soon", "scope": "publish:*"}`:          moqt.RequestMalformedAuthToken,
		`{"exp": 1, "scope": "publish:*"}`:               moqt.RequestExpiredAuthToken,
		`{"exp": 1e300, "scope": "publish:*"}`:           none,
		`{"exp": 9e9, "nbf": 8e9, "scope": "publish:*"}`: moqt.RequestUnauthorized,
	} {
		var decoded object
		require.NoError(t, json.Unmarshal([]byte(claims), &decoded))
		token := sign(t, key, decoded)
		require.Equal(t, want, refusal(t, s, request(relay.ActionPublish, "live", token)), claims)
	}
}

func TestRules(t *testing.T) {
	key := newKey(t, jose.EdDSA)
	strict := signed.Rules{Issuers: []string{"https://id.example"}, Audiences: []string{"relay1", "relays"}}
	for _, c := range []struct {
		rules  signed.Rules
		claims object
		want   moqt.RequestErrorCode
	}{
		{strict, object{"iss": "https://id.example", "aud": "relays"}, none},
		{strict, object{"iss": "https://id.example", "aud": []string{"web", "relay1"}}, none},
		{strict, object{"iss": "https://id.example", "aud": "web"}, moqt.RequestUnauthorized},
		{strict, object{"iss": "https://id.example"}, moqt.RequestUnauthorized},
		{strict, object{"iss": "https://evil.example", "aud": "relays"}, moqt.RequestUnauthorized},
		{strict, object{"aud": "relays"}, moqt.RequestUnauthorized},
		{signed.Rules{}, object{"iss": "anybody"}, none},
		{signed.Rules{}, object{"aud": "web"}, moqt.RequestUnauthorized},
	} {
		c.claims["exp"], c.claims["scope"] = in(time.Hour), "all:*"
		s := newScheme(t, c.rules, key)
		require.Equal(t, c.want, refusal(t, s, request(relay.ActionPublish, "live", sign(t, key, c.claims))), c.claims)
	}
}

func TestForgeries(t *testing.T) {
	rsaKey, ec := newKey(t, jose.RS256), newKey(t, jose.ES256)
	s := newScheme(t, signed.Rules{}, rsaKey, ec)
	claims := object{"exp": in(time.Hour), "scope": "all:*"}
	valid := sign(t, ec, claims)
	header, body, _ := strings.Cut(valid, ".")
	body, signature, _ := strings.Cut(body, ".")
	encode := base64.RawURLEncoding.EncodeToString
	// A token signed with the public key as if it were a shared secret.
	public, err := rsaKey.Public().MarshalJSON()
	require.NoError(t, err)
	confused := sign(t, &jose.JSONWebKey{Key: public, Algorithm: "HS256", KeyID: rsaKey.KeyID}, claims)
	// PS256 with a key that is for RS256.
	other := *rsaKey
	other.Algorithm = "PS256"
	for name, token := range map[string]string{
		"no algorithm":        encode([]byte(`{"alg":"none"}`)) + "." + body + ".",
		"another body":        header + "." + encode([]byte(`{"exp":9e9,"scope":"all:*"}`)) + "." + signature,
		"no signature":        header + "." + body + ".",
		"shared secret":       confused,
		"another algorithm":   sign(t, &other, claims),
		"unknown critical":    encode([]byte(`{"alg":"ES256","crit":["x"],"x":1}`)) + "." + body + "." + signature,
		"not base64":          "eyJ*.*.*",
		"too long":            valid + strings.Repeat("A", signed.MaxToken),
		"empty":               "eyJ..",
		"signature of others": sign(t, newKey(t, jose.ES256), claims),
	} {
		require.NotEqual(t, none, refusal(t, s, request(relay.ActionPublish, "live", token)), name)
	}
	require.Equal(t, none, refusal(t, s, request(relay.ActionPublish, "live", valid)))
}

// Of several tokens, any may allow a request, and the longest lasting counts. Tokens of other formats are ignored.
func TestSeveralTokens(t *testing.T) {
	key := newKey(t, jose.EdDSA)
	s := newScheme(t, signed.Rules{}, key)
	short := sign(t, key, object{"exp": in(time.Hour), "scope": "subscribe:live"})
	long := sign(t, key, object{"exp": in(2 * time.Hour), "scope": "subscribe:live"})
	expired := sign(t, key, object{"exp": in(-time.Hour), "scope": "subscribe:live"})
	elsewhere := sign(t, key, object{"exp": in(time.Hour), "scope": "subscribe:other"})
	grant, err := s.Authorize(t.Context(), request(relay.ActionSubscribe, "live", "plain", expired, short, long, short))
	require.NoError(t, err)
	require.Equal(t, in(2*time.Hour), grant.Expires.Unix())
	require.Equal(t, moqt.RequestExpiredAuthToken,
		refusal(t, s, request(relay.ActionSubscribe, "live", elsewhere, expired, elsewhere)))
	require.Equal(t, moqt.RequestUnauthorized, refusal(t, s, request(relay.ActionSubscribe, "live", "plain", "d8.3.x")))
	require.Equal(t, moqt.RequestUnauthorized, refusal(t, s, request(relay.ActionSubscribe, "live")))
}

// TestRewrittenTokens has a bearer write a token in other ways that the library takes. It stays the same token for
// quotas and withdrawals.
func TestRewrittenTokens(t *testing.T) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	key := newKey(t, jose.EdDSA)
	s := newScheme(t, signed.Rules{}, key)
	subjects := make(map[string]int)
	for pad := range 3 { // some text does not end with whole bytes
		text := sign(t, key, object{"exp": int64(9e9), "scope": "all:*", "x": strings.Repeat("x", pad)})
		parts := strings.Split(text, ".")
		forms := []string{text, text + "\n", parts[0][:9] + "\r\n" + parts[0][9:] + "." + parts[1] + "." + parts[2]}
		for _, last := range alphabet {
			forms = append(forms, parts[0]+"."+parts[1][:len(parts[1])-1]+string(last)+"."+parts[2])
		}
		for _, form := range forms {
			if grant, err := s.Authorize(t.Context(), request(relay.ActionPublish, "live", form)); err == nil {
				subjects[grant.Subject]++
			}
		}
	}
	require.Len(t, subjects, 3, "one for each token")
	require.Greater(t, slices.Max(slices.Collect(maps.Values(subjects))), 4, "other forms have the same signature")
}

// TestNoKeysYet refuses a token that may be right in a way that tells the peer to try again.
func TestNoKeysYet(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	keys, err := signed.AwaitKeys(server.URL, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	s, err := signed.New(Format{}, keys, signed.Rules{})
	require.NoError(t, err)
	token := sign(t, newKey(t, jose.EdDSA), object{"exp": in(time.Hour), "scope": "all:*"})
	_, err = s.Authorize(t.Context(), request(relay.ActionSubscribe, "live", token))
	var refused *moqt.RequestError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, moqt.RequestInternalError, refused.Code)
	require.NotZero(t, refused.RetryInterval)
	require.Equal(t, moqt.RequestUnauthorized, refusal(t, s, request(relay.ActionSubscribe, "live")))
}

func TestSign(t *testing.T) {
	for _, alg := range algorithms {
		key := newKey(t, alg)
		p := auth.Permission{Word: auth.Publish, Prefix: moqt.Namespace{"live", "a b"}}
		expires := time.Unix(in(time.Hour), 0)
		text, err := Sign(key, &signed.Claims{
			Issuer: "me", Subject: "camera 1", Audiences: []string{"relay"}, Expires: expires,
		}, []auth.Permission{p, {Word: auth.Discover}})
		require.NoError(t, err)
		s := newScheme(t, signed.Rules{Issuers: []string{"me"}, Audiences: []string{"relay"}}, key)
		grant, err := s.Authorize(t.Context(), request(relay.ActionPublish, "live/a b", text))
		require.NoError(t, err, alg)
		require.Equal(t, expires.Unix(), grant.Expires.Unix())
		require.Equal(t, `"camera 1" of "me"`, grant.Subject)
		parsed, err := Format{}.Parse([]byte(text))
		require.NoError(t, err)
		require.Equal(t, key.KeyID, parsed.KeyID())
		c, err := parsed.Claims()
		require.NoError(t, err)
		require.Equal(t, "camera 1", c.Subject)
		require.Equal(t, "[publish:live/a%20b discover:*]", strings.ReplaceAll(formatScopes(c.Scopes), ",", ""))
	}
	public := newKey(t, jose.EdDSA).Public()
	_, err := Sign(&public, &signed.Claims{}, nil)
	require.ErrorContains(t, err, "needs a private key")
	_, err = Sign(&jose.JSONWebKey{Key: make([]byte, 32)}, &signed.Claims{}, nil)
	require.ErrorContains(t, err, "needs a private key")
}

func formatScopes(scopes []signed.Scope) string {
	var all []string
	for _, s := range scopes {
		all = append(all, s.String())
	}
	return "[" + strings.Join(all, " ") + "]"
}

// FuzzToken checks that no token, whatever its form, is accepted without a signature of the key.
func FuzzToken(f *testing.F) {
	key := newKey(f, jose.EdDSA)
	claims := object{"exp": 9e9, "nbf": 1, "iss": "me", "aud": "relay", "scope": "publish:live all:*"}
	valid := sign(f, newKey(f, jose.EdDSA), claims)
	f.Add([]byte(valid))
	f.Add([]byte(sign(f, newKey(f, jose.ES256), claims)))
	f.Add([]byte("eyJhbGciOiJub25lIn0.e30."))
	s := newScheme(f, signed.Rules{}, key)
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testlimit.Start(t, len(b), 1000)()
		tok := moqt.Token{AliasType: moqt.AliasUseValue, Value: b}
		r := relay.AuthRequest{Namespace: moqt.Namespace{"live"}, Tokens: []moqt.Token{tok}}
		_, err := s.Authorize(t.Context(), r)
		require.Error(t, err)
		parsed, err := Format{}.Parse(b)
		if err != nil {
			return
		}
		_ = parsed.KeyID()
		if c, err := parsed.Claims(); err == nil {
			require.False(t, c.Expires.IsZero())
		}
	})
}
