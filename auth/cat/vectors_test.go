package cat

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"sluice/auth/signed"
	"sluice/moqt"
	"sluice/relay"
)

// vector is a test vector of draft-ietf-moq-c4m, Appendix A. testdata/vectors.json has them without line breaks.
type vector struct {
	ID         string  `json:"id"`
	Token      string  `json:"token"`
	Payload    string  `json:"payload_cbor_hex"`
	Review     float64 `json:"moqt_reval"`
	Validation struct {
		Time      int64    `json:"reference_time"`
		Issuers   []string `json:"expected_issuers"`
		Audiences []string `json:"expected_audiences"`
		Error     string   `json:"expected_error"`
		WrongKey  string   `json:"wrong_key_hex"`
		Algorithm int64    `json:"verifier_algorithm_id"`
	} `json:"validation"`
	Authorization []struct {
		Action    int64          `json:"action"`
		Namespace moqt.Namespace `json:"namespace"`
		Track     string         `json:"track"`
		Expected  bool           `json:"expected"`
	} `json:"authorization_tests"`
}

type vectors struct {
	Keys struct {
		X    string `json:"es256_public_key_x"`
		Y    string `json:"es256_public_key_y"`
		HMAC string `json:"hmac_sha256"`
	} `json:"keys"`
	Claims     []vector `json:"claims"`
	Tokens     []vector `json:"tokens"`
	DPoP       []vector `json:"dpop"`
	Scopes     []vector `json:"scopes"`
	Validation []vector `json:"validation"`
}

func readVectors(t testing.TB) (v vectors) {
	b, err := os.ReadFile("testdata/vectors.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &v))
	require.Equal(t, []int{7, 3, 3, 5, 8},
		[]int{len(v.Claims), len(v.Tokens), len(v.DPoP), len(v.Scopes), len(v.Validation)})
	return v
}

func fromHex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

func (v *vectors) hmacKey(t testing.TB) *jose.JSONWebKey {
	return &jose.JSONWebKey{Key: fromHex(t, v.Keys.HMAC)}
}

func (v *vectors) ecKey(t testing.TB) *jose.JSONWebKey {
	uncompressed := slices.Concat([]byte{4}, fromHex(t, v.Keys.X), fromHex(t, v.Keys.Y)) // SEC 1 §2.3.3
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), uncompressed)
	require.NoError(t, err)
	return &jose.JSONWebKey{Key: key}
}

// verified parses a token that one of the keys of the appendix has signed.
func (v *vectors) verified(t *testing.T, text string) *message {
	m, err := parseMessage([]byte(text))
	require.NoError(t, err)
	key := v.hmacKey(t)
	if m.alg == -7 {
		key = v.ecKey(t)
	}
	require.NoError(t, m.Verify(key))
	return m
}

// Claims that only restrict a token in ways that the relay does not check are refused; the draft's vectors have all of
// them.
func TestVectorsOfClaims(t *testing.T) {
	want := map[string]string{
		"cbor_issuer_only": "", "cbor_core_claims": "", "cbor_cat_version_usage": "claim 312",
		"cbor_network_identifiers": "claim 311", "cbor_geographic_claims": "claim", "cbor_uri_patterns": "claim 315",
		"cbor_alpn": "claim 314",
	}
	for _, v := range readVectors(t).Claims {
		c, err := decodeClaims(fromHex(t, v.Payload))
		if text := want[v.ID]; text != "" {
			require.ErrorContains(t, err, text, v.ID)
			require.ErrorIs(t, err, errUnknownClaim, v.ID)
			continue
		}
		require.NoError(t, err, v.ID)
		require.Equal(t, "https://auth.example.com", c.Issuer)
		if v.ID == "cbor_core_claims" {
			require.Equal(t, []string{"https://relay.example.com"}, c.Audiences)
			require.Equal(t, []int64{1700086400, 1700000000}, []int64{c.Expires.Unix(), c.NotBefore.Unix()})
		}
	}
}

func TestVectorsOfTokens(t *testing.T) {
	all := readVectors(t)
	for _, v := range all.Tokens {
		require.True(t, Format{}.Recognizes(moqt.Token{Value: []byte(v.Token)}), v.ID)
		m := all.verified(t, v.Token)
		require.Equal(t, v.Payload, hex.EncodeToString(m.payload), v.ID)
		m.payload, m.signed = bytes.Clone(m.payload), bytes.Clone(m.signed)
		m.signed[len(m.signed)-1] ^= 1
		require.Error(t, m.Verify(all.hmacKey(t)))
		require.Error(t, m.Verify(all.ecKey(t)))
	}
}

// Tokens that are bound to a key of the bearer are refused: the relay takes no proofs of possession.
func TestVectorsOfProofsOfPossession(t *testing.T) {
	all := readVectors(t)
	for _, v := range all.DPoP {
		m := all.verified(t, v.Token)
		_, err := decodeClaims(m.payload)
		require.ErrorIs(t, err, errUnknownClaim, v.ID)
	}
}

func TestVectorsOfScopes(t *testing.T) {
	all := readVectors(t)
	messages := make(map[int64]relay.Action)
	for a, numbers := range actions {
		if len(numbers) == 1 {
			messages[numbers[0]] = a
		}
	}
	for _, v := range all.Scopes {
		m := all.verified(t, v.Token)
		require.Equal(t, v.Payload, hex.EncodeToString(m.payload), v.ID)
		c, err := decodeClaims(m.payload)
		require.NoError(t, err, v.ID)
		require.Equal(t, time.Duration(v.Review*float64(time.Second)), c.Review, v.ID)
		for _, test := range v.Authorization {
			a, found := messages[test.Action]
			if !found {
				continue // CLIENT_SETUP: the relay asks for no permission
			}
			r := relay.AuthRequest{Action: a, Namespace: test.Namespace, Name: test.Track}
			require.Equal(t, test.Expected, c.Allows(&r), "%s: %+v", v.ID, test)
		}
	}
}

func TestVectorsOfValidation(t *testing.T) {
	all := readVectors(t)
	codes := map[string]moqt.RequestErrorCode{
		"TokenExpired": moqt.RequestExpiredAuthToken, "TokenNotYetValid": moqt.RequestUnauthorized,
		"InvalidIssuer": moqt.RequestUnauthorized, "InvalidAudience": moqt.RequestUnauthorized,
	}
	for _, v := range all.Validation {
		m, err := parseMessage([]byte(v.Token))
		require.NoError(t, err, v.ID)
		switch {
		case v.Validation.WrongKey != "":
			require.NoError(t, m.Verify(all.hmacKey(t)))
			require.ErrorIs(t, m.Verify(&jose.JSONWebKey{Key: fromHex(t, v.Validation.WrongKey)}), errMAC)
			continue
		case v.Validation.Algorithm != 0:
			require.ErrorIs(t, m.Verify(all.ecKey(t)), errAlgorithm)
			continue
		case v.Validation.Error == "SignatureVerificationFailed":
			require.ErrorIs(t, m.Verify(all.hmacKey(t)), errMAC)
			continue
		}
		require.NoError(t, m.Verify(all.hmacKey(t)), v.ID)
		c, err := decodeClaims(m.payload)
		require.NoError(t, err, v.ID)
		rules := signed.Rules{Issuers: v.Validation.Issuers, Audiences: v.Validation.Audiences}
		refused := rules.Check(c, time.Unix(v.Validation.Time, 0))
		if v.Validation.Error == "" {
			require.Nil(t, refused, v.ID)
			continue
		}
		require.Equal(t, codes[v.Validation.Error], refused.Code, v.ID)
	}
}
