package signed

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

// Limits of a set of keys.
const (
	// maxKeySet is the largest encoded set in bytes. With its certificates, an RSA key of 4096 bits has 8 KiB.
	maxKeySet = 256 << 10
	// maxKeys is how many keys a set may have. Issuers have 2 to 5.
	maxKeys = 64
	// minRSA and minSecret are the smallest keys: in bits (RFC 7518 §3.3) and in bytes (§3.2).
	minRSA    = 2048
	minSecret = 32
)

// parseKeys parses a JSON Web Key Set (RFC 7517 §5), or a single key. Keys that are not for signatures, or of an
// unknown type, are left out, as the RFC demands. Of private keys only the public half is kept.
func parseKeys(b []byte) (set []jose.JSONWebKey, err error) {
	var raw struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return nil, fmt.Errorf("not a JSON Web Key Set: %w", err)
	}
	if raw.Keys == nil {
		raw.Keys = []json.RawMessage{b}
	}
	if len(raw.Keys) > maxKeys {
		return nil, fmt.Errorf("%d keys: at most %d are allowed", len(raw.Keys), maxKeys)
	}
	var reasons error
	for _, r := range raw.Keys {
		key, err := parseKey(r)
		if err != nil {
			reasons = errors.Join(reasons, err)
			continue
		}
		set = append(set, key)
	}
	if len(set) == 0 {
		return nil, errors.Join(errors.New("no key can be used"), reasons)
	}
	return set, nil
}

func parseKey(b []byte) (key jose.JSONWebKey, err error) {
	if err := key.UnmarshalJSON(b); err != nil {
		return key, err
	}
	if key.Use != "" && key.Use != "sig" {
		return key, fmt.Errorf("key %q: its use is %q, not sig", key.KeyID, key.Use)
	}
	if !IsSecret(&key) {
		key = key.Public()
	}
	return key, checkStrength(&key)
}

// checkStrength refuses keys that are too short.
func checkStrength(key *jose.JSONWebKey) error {
	switch k := key.Key.(type) {
	case []byte:
		if len(k) < minSecret {
			return fmt.Errorf("key %q: %d bytes; a secret must have at least %d", key.KeyID, len(k), minSecret)
		}
	case *rsa.PublicKey:
		if n := k.N.BitLen(); n < minRSA {
			return fmt.Errorf("key %q: %d bits; an RSA key must have at least %d", key.KeyID, n, minRSA)
		}
	default:
		if !key.Valid() {
			return fmt.Errorf("key %q: its values are not valid", key.KeyID)
		}
	}
	return nil
}

// hasSecrets reports whether somebody who knows the set can sign tokens.
func hasSecrets(set []jose.JSONWebKey) bool {
	return slices.ContainsFunc(set, func(k jose.JSONWebKey) bool { return IsSecret(&k) })
}

// equalKeys reports whether two sets have the same keys in the same order.
func equalKeys(a, b []jose.JSONWebKey) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// Curve returns the name of the curve of an elliptic key, such as P-256; "" for other keys.
func Curve(key *jose.JSONWebKey) string {
	if k, ok := key.Key.(*ecdsa.PublicKey); ok {
		return k.Curve.Params().Name
	}
	return ""
}
