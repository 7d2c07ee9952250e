package cat

import (
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/fxamacker/cbor/v2"
	"github.com/go-jose/go-jose/v4"

	"sluice/auth"
	"sluice/auth/signed"
	"sluice/moqt"
)

// granted are the actions that the words of permissions stand for.
var granted = map[string][]int64{
	auth.Publish:   {publishNamespace, publish},
	auth.Subscribe: {subscribe, fetch, trackStatus},
	auth.Discover:  {subscribeNamespace},
	auth.All:       {publishNamespace, subscribeNamespace, subscribe, publish, fetch, trackStatus},
}

// Sign makes a token in base64. The key is private or a secret. The token gets its key id.
func Sign(key *jose.JSONWebKey, c *signed.Claims, permissions []auth.Permission) (string, error) {
	public := *key
	if !signed.IsSecret(key) {
		public = key.Public()
	}
	alg := algorithmOf(&public)
	if alg == 0 {
		return "", fmt.Errorf("a Common Access Token needs a key of another type than %T", key.Key)
	}
	headers := map[int64]any{headerAlg: alg}
	if key.KeyID != "" {
		headers[headerKID] = []byte(key.KeyID)
	}
	protected := must(encoding.Marshal(headers))
	payload := must(encoding.Marshal(encodeClaims(c, permissions)))
	m := &message{alg: alg}
	signature, err := signWith(key, alg, toBeSigned(m.structure(), protected, payload))
	if err != nil {
		return "", err
	}
	content := cose{Protected: protected, Payload: payload, Signature: signature}
	content.Unprotected = map[any]cbor.RawMessage{}
	b, err := encoding.Marshal(cbor.Tag{Number: m.structure(), Content: content})
	return base64.RawURLEncoding.EncodeToString(b), err
}

func encodeClaims(c *signed.Claims, permissions []auth.Permission) map[int64]any {
	claims := map[int64]any{claimMOQT: encodeScopes(permissions)}
	if c.Issuer != "" {
		claims[claimIssuer] = c.Issuer
	}
	if c.Subject != "" {
		claims[claimSubject] = c.Subject
	}
	if len(c.Audiences) > 0 {
		claims[claimAudience] = c.Audiences
	}
	if !c.Expires.IsZero() {
		claims[claimExpires] = c.Expires.Unix()
	}
	if c.Review > 0 {
		claims[claimReview] = int64(c.Review.Seconds())
	}
	return claims
}

// encodeScopes makes one scope of all permissions with the same prefix, because SUBSCRIBE_TRACKS needs two actions in
// the same scope.
func encodeScopes(permissions []auth.Permission) (scopes []any) {
	var done []moqt.Namespace
	for _, p := range permissions {
		if slices.ContainsFunc(done, p.Prefix.Equal) {
			continue
		}
		done = append(done, p.Prefix)
		var list []int64
		for _, q := range permissions {
			if q.Prefix.Equal(p.Prefix) {
				list = append(list, granted[q.Word]...)
			}
		}
		slices.Sort(list)
		scope := []any{slices.Compact(list)}
		if len(p.Prefix) > 0 {
			scope = append(scope, encodeFields(p.Prefix))
		}
		scopes = append(scopes, scope)
	}
	return scopes
}

func encodeFields(ns moqt.Namespace) (fields [][]byte) {
	for _, f := range ns {
		fields = append(fields, []byte(f))
	}
	return fields
}
