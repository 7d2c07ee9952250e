package jwt

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"sluice/auth"
	"sluice/auth/signed"
	"sluice/moqt"
)

// Format implements signed.Format.
type Format struct{}

var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256, jose.ES384, jose.EdDSA}

// Recognizes implements signed.Format. A JWT is text of three parts. The first is a JSON object in base64. The token
// type is ignored: none is registered for JWT.
func (Format) Recognizes(t moqt.Token) bool {
	return bytes.HasPrefix(t.Value, []byte("eyJ")) && bytes.Count(t.Value, []byte(".")) == 2
}

// token implements signed.Token.
type token struct {
	parsed *jwt.JSONWebToken
	signed []byte
}

// Parse implements signed.Format.
func (Format) Parse(value []byte) (signed.Token, error) {
	t, err := jwt.ParseSigned(string(value), algorithms)
	if err != nil {
		return nil, fmt.Errorf("the token is not a JSON Web Token signed with one of %v", algorithms)
	}
	return &token{t, canonical(value[:bytes.LastIndexByte(value, '.')])}, nil
}

// canonical returns the signed text as its issuer has written it, whose signature is the same in other forms: with line
// breaks, or with other bits behind the last byte of a part.
func canonical(text []byte) []byte {
	parts := bytes.Split(text, []byte("."))
	for i, p := range parts {
		decoded, _ := base64.RawURLEncoding.AppendDecode(nil, p) // ParseSigned has decoded it
		parts[i] = base64.RawURLEncoding.AppendEncode(nil, decoded)
	}
	return bytes.Join(parts, []byte("."))
}

// KeyID implements signed.Token.
func (t *token) KeyID() string { return t.parsed.Headers[0].KeyID }

// Signed implements signed.Token.
func (t *token) Signed() []byte { return t.signed }

// Verify implements signed.Token.
func (t *token) Verify(key *jose.JSONWebKey) error {
	if !slices.Contains(algorithmsOf(key), jose.SignatureAlgorithm(t.parsed.Headers[0].Algorithm)) {
		return errAlgorithm
	}
	return t.parsed.Claims(key.Key)
}

var errAlgorithm = errors.New("the key is not for the algorithm of the token")

// algorithmsOf returns the algorithms that a public key is for.
func algorithmsOf(key *jose.JSONWebKey) []jose.SignatureAlgorithm {
	var fit []jose.SignatureAlgorithm
	switch key.Key.(type) {
	case *rsa.PublicKey:
		fit = []jose.SignatureAlgorithm{jose.RS256, jose.PS256}
	case ed25519.PublicKey:
		fit = []jose.SignatureAlgorithm{jose.EdDSA}
	}
	switch signed.Curve(key) {
	case "P-256":
		fit = []jose.SignatureAlgorithm{jose.ES256}
	case "P-384":
		fit = []jose.SignatureAlgorithm{jose.ES384}
	}
	return slices.DeleteFunc(fit, func(a jose.SignatureAlgorithm) bool {
		return key.Algorithm != "" && key.Algorithm != string(a)
	})
}

// claims are the claims that the relay knows.
type claims struct {
	Issuer    string       `json:"iss,omitempty"`
	Subject   string       `json:"sub,omitempty"`
	Audience  jwt.Audience `json:"aud,omitempty"`
	Expires   *float64     `json:"exp,omitempty"`
	NotBefore float64      `json:"nbf,omitempty"`
	Scope     string       `json:"scope,omitempty"`
}

// Claims implements signed.Token.
func (t *token) Claims() (*signed.Claims, error) {
	var c claims
	if err := t.parsed.UnsafeClaimsWithoutVerification(&c); err != nil {
		return nil, fmt.Errorf("the claims of the token are malformed: %w", err)
	}
	if c.Expires == nil {
		return nil, errors.New("the token has no exp: it must say when it expires")
	}
	decoded := &signed.Claims{
		Issuer: c.Issuer, Subject: c.Subject, Audiences: c.Audience, Expires: signed.Time(*c.Expires),
	}
	if c.NotBefore != 0 {
		decoded.NotBefore = signed.Time(c.NotBefore)
	}
	for entry := range strings.FieldsSeq(c.Scope) {
		if !auth.IsPermission(entry) {
			continue
		}
		p, err := auth.ParsePermission(entry)
		if err != nil {
			return nil, fmt.Errorf("the scope of the token: %w", err)
		}
		decoded.Scopes = append(decoded.Scopes, p)
	}
	return decoded, nil
}

// Sign makes a token. The key is private. The token gets its algorithm and key id.
func Sign(key *jose.JSONWebKey, c *signed.Claims, permissions []auth.Permission) (string, error) {
	public := key.Public()
	fit := algorithmsOf(&public)
	if key.IsPublic() || len(fit) == 0 {
		return "", fmt.Errorf("a JSON Web Token needs a private key for one of %v", algorithms)
	}
	options := (&jose.SignerOptions{}).WithType("JWT")
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: fit[0], Key: key}, options)
	if err != nil {
		return "", err
	}
	entries := make([]string, len(permissions))
	for i, p := range permissions {
		entries[i] = p.String()
	}
	expires := float64(c.Expires.Unix())
	encoded := claims{
		Issuer: c.Issuer, Subject: c.Subject, Audience: c.Audiences, Expires: &expires,
		Scope: strings.Join(entries, " "),
	}
	return jwt.Signed(signer).Claims(encoded).Serialize()
}
