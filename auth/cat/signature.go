package cat

import (
	"crypto"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
	gocose "github.com/veraison/go-cose"

	"sluice/auth/signed"
)

// Algorithms of COSE (RFC 9053) that go-cose lacks.
const (
	algHMAC = 5 // HMAC 256/256
	// algDottedHMAC is what the draft's Appendix A has for HMAC with SHA-256. COSE has registered it for something
	// else, so it is accepted only in the form with periods.
	algDottedHMAC = -4
)

var (
	errAlgorithm = errors.New("the key is not for the algorithm of the token")
	errMAC       = errors.New("the MAC of the token is wrong")
)

func sum(secret, b []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write(b)
	return h.Sum(nil)
}

// algorithmOf returns the algorithm that a public key or a secret is for, or 0 if it is for none.
func algorithmOf(key *jose.JSONWebKey) int64 {
	switch key.Key.(type) {
	case []byte:
		return algHMAC
	case ed25519.PublicKey:
		return int64(gocose.AlgorithmEdDSA)
	case *rsa.PublicKey:
		return int64(gocose.AlgorithmPS256)
	}
	switch signed.Curve(key) {
	case "P-256":
		return int64(gocose.AlgorithmES256)
	case "P-384":
		return int64(gocose.AlgorithmES384)
	}
	return 0
}

// signWith signs bytes with a private key or a secret.
func signWith(key *jose.JSONWebKey, alg int64, b []byte) ([]byte, error) {
	if secret, ok := key.Key.([]byte); ok {
		return sum(secret, b), nil
	}
	private, ok := key.Key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a token needs a private key or a secret, not %T", key.Key)
	}
	s, err := gocose.NewSigner(gocose.Algorithm(alg), private)
	if err != nil {
		return nil, err
	}
	return s.Sign(rand.Reader, b)
}
