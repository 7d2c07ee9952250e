package cat

import (
	"bytes"

	"sluice/auth/signed"
	"sluice/moqt"
)

// TokenType is the token type of Common Access Tokens in the registry of MoQT.
const TokenType = 1

// Format implements signed.Format.
type Format struct{}

// starts are the first bytes of tokens without a type: tags for CWT, COSE_Mac0 and COSE_Sign1, and the same in base64.
var starts = [][]byte{{0xd8, tagCWT}, {0xd1}, {0xd2}, []byte("2D"), []byte("0Y"), []byte("0o")}

// Recognizes implements signed.Format. Clients that cannot set the token type send 0, so tokens are also recognized by
// their first bytes.
func (Format) Recognizes(t moqt.Token) bool {
	if t.Type == TokenType {
		return true
	}
	for _, s := range starts {
		if bytes.HasPrefix(t.Value, s) {
			return true
		}
	}
	// Three parts. The first is a small CBOR map in base64.
	return bytes.HasPrefix(t.Value, []byte("o")) && bytes.Count(t.Value, []byte(".")) == 2
}

// Parse implements signed.Format.
func (Format) Parse(value []byte) (signed.Token, error) { return parseMessage(value) }
