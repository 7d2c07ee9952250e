package cat

import (
	"bytes"
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"fmt"

	gocose "github.com/veraison/go-cose"

	"github.com/fxamacker/cbor/v2"
	"github.com/go-jose/go-jose/v4"

	"sluice/auth/signed"
)

// CBOR tags (RFC 8392 §6, RFC 9052 §2).
const (
	tagCWT   = 61
	tagMac0  = 17
	tagSign1 = 18
)

// Labels of COSE headers (RFC 9052 §3.1).
const (
	headerAlg  = 1
	headerCrit = 2
	headerKID  = 4
)

// decoding bounds what a token may contain, and refuses maps with repeated keys, which two readers may understand
// differently.
var decoding = must(cbor.DecOptions{
	DupMapKey:         cbor.DupMapKeyEnforcedAPF,
	MaxNestedLevels:   8,   // a match in a scope is at level 6
	MaxArrayElements:  256, // scopes, or fields of a namespace
	MaxMapPairs:       64,  // claims
	IndefLength:       cbor.IndefLengthForbidden,
	IntDec:            cbor.IntDecConvertSignedOrFail,
	BinaryUnmarshaler: cbor.BinaryUnmarshalerNone,
}.DecMode())

var encoding = must(cbor.CoreDetEncOptions().EncMode())

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// message is a token, before its signature is verified. It implements signed.Token.
type message struct {
	alg       int64
	keyID     string
	tag       uint64 // of the COSE structure; 0 if it has none
	dotted    bool   // the form with periods
	signed    []byte // the signed bytes
	payload   []byte
	signature []byte
}

// cose is a COSE_Sign1 or COSE_Mac0 (RFC 9052 §4.2, §6.2).
type cose struct {
	_           struct{} `cbor:",toarray"`
	Protected   []byte
	Unprotected map[any]cbor.RawMessage
	Payload     []byte
	Signature   []byte
}

// parseMessage parses a token in any of the three forms.
func parseMessage(value []byte) (*message, error) {
	if parts := bytes.Split(value, []byte(".")); len(parts) == 3 && isText(value) {
		return parseDotted(parts)
	}
	if isText(value) {
		var err error
		if value, err = decodeBase64(value); err != nil {
			return nil, err
		}
	}
	return parseCOSE(value)
}

// isText reports whether a token is text: CBOR begins with the byte of a tag or an array, which is not ASCII.
func isText(value []byte) bool { return len(value) > 0 && value[0] < 0x80 }

// decodeBase64 decodes both alphabets of RFC 4648, with and without padding.
func decodeBase64(text []byte) ([]byte, error) {
	text = bytes.TrimRight(text, "=")
	text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("+"), []byte("-")), []byte("/"), []byte("_"))
	b, err := base64.RawURLEncoding.AppendDecode(nil, text)
	if err != nil {
		return nil, errors.New("the token is not valid base64")
	}
	return b, nil
}

func parseCOSE(b []byte) (*message, error) {
	m := &message{}
	for range 2 { // a tag for CWT, and one for the COSE structure
		var tag cbor.RawTag
		if decoding.Unmarshal(b, &tag) != nil {
			break
		}
		if tag.Number != tagCWT {
			m.tag = tag.Number
		}
		b = tag.Content
	}
	var c cose
	if err := decoding.Unmarshal(b, &c); err != nil {
		return nil, fmt.Errorf("the token is not a COSE_Sign1 or COSE_Mac0: %w", err)
	}
	m.payload, m.signature = c.Payload, c.Signature
	if err := m.readHeaders(c.Protected, c.Unprotected); err != nil {
		return nil, err
	}
	if m.tag != 0 && m.tag != m.structure() {
		return nil, fmt.Errorf("the CBOR tag %d of the token does not fit its algorithm %d", m.tag, m.alg)
	}
	m.signed = toBeSigned(m.structure(), c.Protected, c.Payload)
	return m, nil
}

// toBeSigned returns the Sig_structure or MAC_structure (RFC 9052 §4.4, §6.3).
func toBeSigned(structure uint64, protected, payload []byte) []byte {
	context := "Signature1"
	if structure == tagMac0 {
		context = "MAC0"
	}
	return must(encoding.Marshal([]any{context, protected, []byte{}, payload}))
}

// parseDotted parses the form of the draft's Appendix A. The signature covers the text of the first two parts, as in a
// JSON Web Token.
func parseDotted(parts [][]byte) (*message, error) {
	var decoded [3][]byte
	for i, p := range parts {
		var err error
		if decoded[i], err = decodeBase64(p); err != nil {
			return nil, err
		}
	}
	m := &message{
		dotted: true, signed: bytes.Join(parts[:2], []byte(".")), payload: decoded[1], signature: decoded[2],
	}
	return m, m.readHeaders(decoded[0], nil)
}

// readHeaders reads the algorithm, which has to be protected, and the id of the key.
func (m *message) readHeaders(protected []byte, unprotected map[any]cbor.RawMessage) error {
	var headers map[any]cbor.RawMessage
	if err := decoding.Unmarshal(protected, &headers); err != nil {
		return fmt.Errorf("the header of the token is malformed: %w", err)
	}
	if _, found := headers[int64(headerCrit)]; found {
		return errors.New("the token has critical headers, which the relay does not know")
	}
	if err := decoding.Unmarshal(headers[int64(headerAlg)], &m.alg); err != nil {
		return errors.New("the header of the token has no algorithm")
	}
	for _, h := range []map[any]cbor.RawMessage{unprotected, headers} {
		if raw, found := h[int64(headerKID)]; found {
			var id []byte
			if err := decoding.Unmarshal(raw, &id); err != nil {
				return errors.New("the key id of the token is not a byte string")
			}
			m.keyID = string(id)
		}
	}
	return nil
}

// isMAC reports whether the token has a MAC, and not a signature.
func (m *message) isMAC() bool { return m.alg == algHMAC || m.dotted && m.alg == algDottedHMAC }

// structure returns the tag of the COSE structure for the algorithm.
func (m *message) structure() uint64 {
	if m.isMAC() {
		return tagMac0
	}
	return tagSign1
}

// KeyID implements signed.Token.
func (m *message) KeyID() string { return m.keyID }

// Signed implements signed.Token.
func (m *message) Signed() []byte { return m.signed }

// Claims implements signed.Token.
func (m *message) Claims() (*signed.Claims, error) { return decodeClaims(m.payload) }

// Verify implements signed.Token.
func (m *message) Verify(key *jose.JSONWebKey) error {
	if m.isMAC() {
		secret, ok := key.Key.([]byte)
		if !ok {
			return errAlgorithm
		}
		if !hmac.Equal(sum(secret, m.signed), m.signature) {
			return errMAC
		}
		return nil
	}
	if m.alg != algorithmOf(key) {
		return errAlgorithm
	}
	v, err := gocose.NewVerifier(gocose.Algorithm(m.alg), key.Key)
	if err != nil {
		return err
	}
	return v.Verify(m.signed, m.signature)
}
