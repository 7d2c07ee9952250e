package moqt

import (
	"errors"
	"fmt"
)

// AliasType determines what a Token holds and what the receiver does with it (draft §10.2.2).
type AliasType uint64

// Alias types (draft §15.5).
const (
	AliasDelete   AliasType = 0x0 // retire Alias
	AliasRegister AliasType = 0x1 // remember Type and Value as Alias
	AliasUse      AliasType = 0x2 // USE_ALIAS: the Type and Value that were registered as Alias
	AliasUseValue AliasType = 0x3 // Type and Value
)

// Token is an authorization token of a message or of SETUP (draft §10.2.2).
type Token struct {
	AliasType AliasType
	Alias     uint64 // unless AliasType is AliasUseValue
	Type      uint64 // with AliasRegister and AliasUseValue; 0 is agreed on out of band
	Value     []byte `json:"-"` // with the same alias types as Type; a credential: do not log it
}

// tokenOverhead is the size of a registered token without its value, in bytes (draft §10.3.1.3).
const tokenOverhead = 16

// CacheSize returns the part of MAX_AUTH_TOKEN_CACHE_SIZE that the token takes, in bytes (draft §10.3.1.3).
func (t Token) CacheSize() uint64 { return tokenOverhead + uint64(len(t.Value)) }

// Limits of the authorization tokens of one message. The draft has none but the length of the message, in which 13,000
// tokens fit. A request needs one token, or one for each of a few issuers. The largest ones in use are JWTs with many
// claims, which have less than 8 KiB because HTTP servers refuse longer headers.
const (
	MaxAuthTokens     = 16
	MaxAuthTokenBytes = 16 << 10 // of all values together
)

// checkTokens returns an error if a message must not have so many tokens, or such large ones. A peer that sends more
// could make its receiver compare, verify and keep them, and has not been authorized yet.
func checkTokens(tokens []Token) error {
	if len(tokens) > MaxAuthTokens {
		return fmt.Errorf("%d authorization tokens in a message, at most %d are allowed", len(tokens), MaxAuthTokens)
	}
	size := 0
	for _, t := range tokens {
		size += len(t.Value)
	}
	if size > MaxAuthTokenBytes {
		return fmt.Errorf("authorization tokens of %d bytes in a message, at most %d are allowed", size,
			MaxAuthTokenBytes)
	}
	return nil
}

// appendToken reads the token that fills b and appends it to those that precede it in the message. Too many tokens
// close the session with MALFORMED_AUTH_TOKEN.
func appendToken(c *coder, tokens *[]Token, b []byte) {
	t, err := c.wire.parseToken(b)
	c.fail(err)
	*tokens = append(*tokens, t)
	if err := checkTokens(*tokens); err != nil {
		c.fail(&ProtocolError{SessionMalformedAuthToken, err.Error()})
	}
}

// hasAlias and hasValue report which fields follow an alias type.
func (a AliasType) hasAlias() bool { return a == AliasDelete || a == AliasRegister || a == AliasUse }
func (a AliasType) hasValue() bool { return a == AliasRegister || a == AliasUseValue }

// fields is the Token structure, without a length in front. Value is a copy.
func (t *Token) fields(c *coder) {
	c.varint((*uint64)(&t.AliasType))
	if !t.AliasType.hasAlias() && !t.AliasType.hasValue() {
		c.fail(errAliasType)
	}
	if t.AliasType.hasAlias() {
		c.varint(&t.Alias)
	}
	if t.AliasType.hasValue() {
		c.varint(&t.Type)
		c.rest(&t.Value)
	}
}

// encoded returns the Token structure.
func (t Token) encoded(c *coder) []byte {
	inner := coder{wire: c.wire, writes: true}
	t.fields(&inner)
	c.fail(inner.err)
	return inner.b
}

// parseToken reads the Token structure that fills b. A malformed structure closes the session with
// KEY_VALUE_FORMATTING_ERROR (draft §10.2.2).
func (w *wire) parseToken(b []byte) (t Token, err error) {
	c := coder{wire: w, b: b}
	t.fields(&c)
	switch {
	case c.err == errAliasType:
		return Token{}, tokenError(c.err.Error())
	case c.err != nil:
		return Token{}, tokenError("it ends too early")
	case len(c.b) > 0:
		return Token{}, tokenError("bytes after its end")
	}
	return t, nil
}

var errAliasType = errors.New("unknown alias type")

// String describes the token without its value, which is a credential.
func (t Token) String() string {
	return fmt.Sprintf("token{alias type %d, alias %d, type %#x, %d bytes}", t.AliasType, t.Alias, t.Type, len(t.Value))
}

// GoString does the same for %#v.
func (t Token) GoString() string { return t.String() }

func tokenError(reason string) error {
	return &ProtocolError{SessionKeyValueFormattingError, "authorization token: " + reason}
}
