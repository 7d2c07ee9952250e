package session

import (
	"bytes"
	"errors"
	"slices"
	"sync"

	"sluice/moqt"
)

// tokenCache holds the authorization tokens that the peer has registered (draft §10.2.2).
type tokenCache struct {
	limit uint64 // our MAX_AUTH_TOKEN_CACHE_SIZE, in bytes as the draft counts them (§10.3.1.3)

	mu     sync.Mutex
	tokens map[uint64]moqt.Token
	size   uint64
}

// resolve processes the tokens of one message in their order, and returns those that have a value, by value. Tokens are
// registered even if the message is refused. A ProtocolError ends the session. If repeated is true, the message must be
// refused with MALFORMED_AUTH_TOKEN. In SETUP, a registration that does not fit into the cache counts as a plain value
// (draft §10.3.1.4).
func (c *tokenCache) resolve(tokens []moqt.Token, inSetup bool) (resolved []moqt.Token, repeated bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range tokens {
		if t.AliasType == moqt.AliasRegister && c.overflows(t) {
			if !inSetup {
				return nil, false, closes(moqt.SessionAuthTokenCacheOverflow,
					"registered authorization tokens exceed the cache size")
			}
			t = byValue(t)
		}
		if t, err = c.process(t); err != nil {
			return nil, false, err
		}
		if t.AliasType != moqt.AliasDelete {
			repeated = repeated || contains(resolved, t)
			resolved = append(resolved, t)
		}
	}
	return resolved, repeated, nil
}

// process registers, looks up or deletes a token, as its alias type says, and returns it by value if it has one.
//
// The draft demands that messages with an unknown alias are refused with UNKNOWN_AUTH_TOKEN_ALIAS. That is a code for
// sessions only (§15.10.1), so the session ends. Senders that follow the rules for aliases never cause that.
func (c *tokenCache) process(t moqt.Token) (moqt.Token, error) {
	known, ok := c.tokens[t.Alias]
	switch t.AliasType {
	case moqt.AliasUseValue:
		return t, nil
	case moqt.AliasRegister:
		if ok {
			return t, closes(moqt.SessionDuplicateAuthTokenAlias, "authorization token alias is already registered")
		}
		c.add(t)
		return byValue(t), nil
	}
	if !ok {
		return t, closes(moqt.SessionUnknownAuthTokenAlias, "authorization token alias is not registered")
	}
	if t.AliasType == moqt.AliasDelete {
		c.remove(known)
		return t, nil
	}
	return byValue(known), nil
}

func (c *tokenCache) overflows(t moqt.Token) bool { return t.CacheSize() > c.limit-c.size }

func (c *tokenCache) add(t moqt.Token) {
	if c.tokens == nil {
		c.tokens = make(map[uint64]moqt.Token)
	}
	c.tokens[t.Alias] = t
	c.size += t.CacheSize()
}

func (c *tokenCache) remove(t moqt.Token) {
	delete(c.tokens, t.Alias)
	c.size -= t.CacheSize()
}

func byValue(t moqt.Token) moqt.Token {
	return moqt.Token{AliasType: moqt.AliasUseValue, Type: t.Type, Value: t.Value}
}

func contains(tokens []moqt.Token, t moqt.Token) bool {
	for _, o := range tokens {
		if o.Type == t.Type && bytes.Equal(o.Value, t.Value) {
			return true
		}
	}
	return false
}

// errTokenAlias refuses a token of this end that is not sent by value. An alias would save a few bytes, and the sender
// would have to follow the peer's cache (draft §10.2.2).
var errTokenAlias = errors.New("authorization tokens are sent by value, with AliasUseValue")

// checkOwnTokens returns an error if tokens of this end are not by value.
func checkOwnTokens(tokens []moqt.Token) error {
	if slices.ContainsFunc(tokens, func(t moqt.Token) bool { return t.AliasType != moqt.AliasUseValue }) {
		return errTokenAlias
	}
	return nil
}
