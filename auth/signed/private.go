package signed

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"fmt"

	"github.com/go-jose/go-jose/v4"

	"sluice/internal/bounds"
	"sluice/internal/files"
)

// NewKey makes a private key for an algorithm: EdDSA, ES256 or RS256; or a secret for HS256.
func NewKey(algorithm string) (*jose.JSONWebKey, error) {
	if err := bounds.OneOf("algorithm", algorithm, "EdDSA", "ES256", "RS256", "HS256"); err != nil {
		return nil, err
	}
	key := &jose.JSONWebKey{Algorithm: algorithm, Use: "sig"}
	var err error
	switch algorithm {
	case "EdDSA":
		_, key.Key, err = ed25519.GenerateKey(rand.Reader)
	case "ES256":
		key.Key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "RS256":
		key.Key, err = rsa.GenerateKey(rand.Reader, 3072)
	case "HS256":
		secret := make([]byte, minSecret)
		_, err = rand.Read(secret)
		key.Key = secret
	}
	if err == nil {
		key.KeyID, err = newKeyID(key)
	}
	return key, err
}

// newKeyID returns the thumbprint of a key (RFC 7638). The id of a secret is random: one that is computed from it would
// be known to whoever sees a token.
func newKeyID(key *jose.JSONWebKey) (string, error) {
	id := make([]byte, 12)
	if IsSecret(key) {
		_, err := rand.Read(id)
		return base64.RawURLEncoding.EncodeToString(id), err
	}
	thumbprint, err := key.Thumbprint(crypto.SHA256)
	return base64.RawURLEncoding.EncodeToString(thumbprint), err
}

// IsSecret reports whether a key is a shared secret, which has no public half.
func IsSecret(key *jose.JSONWebKey) bool {
	_, secret := key.Key.([]byte)
	return secret
}

// ReadPrivateKey reads a private key or a secret from a file with a JSON Web Key.
func ReadPrivateKey(name string) (*jose.JSONWebKey, error) {
	b, _, err := files.Read(name, maxKeySet)
	if err != nil {
		return nil, err
	}
	var key jose.JSONWebKey
	if key.UnmarshalJSON(b) != nil { // its error may quote the key
		return nil, fmt.Errorf("%s: not a JSON Web Key; make one with sluice token keygen", name)
	}
	if key.IsPublic() {
		return nil, fmt.Errorf("%s: a public key; tokens are made with the private one", name)
	}
	public := key
	if !IsSecret(&key) {
		public = key.Public()
	}
	if err := checkStrength(&public); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &key, nil
}
