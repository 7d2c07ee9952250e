package session

import (
	"bytes"
	"errors"
	"fmt"
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
// refused with MALFORMED_AUTH_TOKEN.
func (c *tokenCache) resolve(tokens []moqt.Token) (resolved []moqt.Token, repeated bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range tokens {
		if t.AliasType == moqt.AliasRegister && c.overflows(t) {
			return nil, false, &moqt.ProtocolError{
				Code:   moqt.SessionAuthTokenCacheOverflow,
				Reason: "registered authorization tokens exceed the cache size",
			}
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

// resolveSetup does the same for the tokens of SETUP. There, a registration that does not fit into the cache counts as
// a plain value (draft §10.3.1.4).
func (c *tokenCache) resolveSetup(tokens []moqt.Token) (resolved []moqt.Token, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range tokens {
		if t.AliasType == moqt.AliasRegister && c.overflows(t) {
			t = byValue(t)
		}
		if t, err = c.process(t); err != nil {
			return nil, err
		}
		if t.AliasType == moqt.AliasDelete {
			continue
		}
		if contains(resolved, t) {
			return nil, &moqt.ProtocolError{
				Code: moqt.SessionMalformedAuthToken, Reason: "an authorization token is repeated",
			}
		}
		resolved = append(resolved, t)
	}
	return resolved, nil
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
			return t, &moqt.ProtocolError{
				Code: moqt.SessionDuplicateAuthTokenAlias, Reason: "authorization token alias is already registered",
			}
		}
		c.add(t)
		return byValue(t), nil
	}
	if !ok {
		return t, &moqt.ProtocolError{
			Code: moqt.SessionUnknownAuthTokenAlias, Reason: "authorization token alias is not registered",
		}
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

// Errors of applications that use token aliases wrongly.
var (
	errUnknownToken = errors.New("the authorization token alias is not registered")
	errTokenInUse   = errors.New("the authorization token alias is in use: wait for the responses to its requests")
)

// tokenSender records which of our authorization tokens the peer has registered, and applies the rules for senders
// (draft §10.2.2, §10.3.1.4): No registration exceeds the peer's cache. An alias is used on another stream only after
// the response to the message that registered it. It is deleted only when all messages with it have their responses.
// Where a rule forbids an alias, the value is sent instead, which has the same effect.
//
// The session's mu guards it: its methods expect the caller to hold mu.
type tokenSender struct {
	limit  uint64 // the peer's MAX_AUTH_TOKEN_CACHE_SIZE; 0 until it is known
	size   uint64 // of all registered tokens
	tokens map[uint64]*ownToken
}

// ownToken is a token with an alias that the application chose.
type ownToken struct {
	moqt.Token
	registered bool     // the peer has the alias, too
	by         *Request // whose response confirms that it is registered; nil once it has arrived
	deletedBy  *Request // whose response confirms that it is deleted
	uses       int      // of the alias, in messages that have no response
}

// setup adds the tokens of our SETUP. Until the peer's SETUP arrives, they are sent by value.
func (k *tokenSender) setup(tokens []moqt.Token) {
	k.tokens = make(map[uint64]*ownToken)
	for _, t := range tokens {
		if t.AliasType == moqt.AliasRegister {
			k.tokens[t.Alias] = &ownToken{Token: t}
		}
	}
}

// setLimit takes the limit from the peer's SETUP. The tokens of our SETUP that fit are registered at the peer.
func (k *tokenSender) setLimit(limit uint64, tokens []moqt.Token) {
	k.limit = limit
	for _, t := range tokens {
		own := k.tokens[t.Alias]
		if t.AliasType == moqt.AliasRegister && own != nil && k.fits(t) {
			own.registered = true
			k.size += t.CacheSize()
		}
	}
}

func (k *tokenSender) fits(t moqt.Token) bool { return t.CacheSize() <= k.limit-k.size }

// prepare returns the tokens in the form in which a message on the stream of r may have them. If the message is not
// sent after all, undo reverts prepare.
func (k *tokenSender) prepare(r *Request, tokens []moqt.Token) (ready []moqt.Token, err error) {
	for _, t := range tokens {
		switch t.AliasType {
		case moqt.AliasRegister:
			t, err = k.register(r, t)
		case moqt.AliasUse:
			t, err = k.use(r, t.Alias)
		case moqt.AliasDelete:
			var registered bool
			if registered, err = k.delete(r, t.Alias); !registered && err == nil {
				continue
			}
		}
		if err != nil {
			return nil, fmt.Errorf("alias %d: %w", t.Alias, err)
		}
		ready = append(ready, t)
	}
	return ready, nil
}

func (k *tokenSender) register(r *Request, t moqt.Token) (moqt.Token, error) {
	if _, ok := k.tokens[t.Alias]; ok {
		return t, errTokenInUse
	}
	own := &ownToken{Token: t, registered: k.fits(t), by: r}
	k.tokens[t.Alias] = own
	if !own.registered {
		return byValue(t), nil
	}
	k.size += t.CacheSize()
	r.ownTokens = append(r.ownTokens, own)
	return t, nil
}

func (k *tokenSender) use(r *Request, alias uint64) (moqt.Token, error) {
	own := k.tokens[alias]
	switch {
	case own == nil || own.deletedBy != nil:
		return moqt.Token{Alias: alias}, errUnknownToken
	case !own.registered || own.by != nil && own.by != r:
		return byValue(own.Token), nil
	}
	own.uses++
	r.ownTokens = append(r.ownTokens, own)
	return moqt.Token{AliasType: moqt.AliasUse, Alias: alias}, nil
}

// delete forgets a token. It reports whether the token is registered at the peer, which then must delete it, too.
func (k *tokenSender) delete(r *Request, alias uint64) (registered bool, err error) {
	own := k.tokens[alias]
	switch {
	case own == nil || own.deletedBy != nil:
		return false, errUnknownToken
	case !own.registered:
		delete(k.tokens, alias)
		return false, nil
	case own.by != nil || own.uses > 0:
		return false, errTokenInUse
	}
	own.deletedBy = r
	r.ownTokens = append(r.ownTokens, own)
	return true, nil
}

// confirm is called after a response. If all messages of this end on the stream of r have a response, the peer has
// processed their tokens.
func (k *tokenSender) confirm(r *Request) {
	if len(r.sent.unanswered) > 0 {
		return
	}
	for _, own := range r.ownTokens {
		switch {
		case own.deletedBy == r:
			delete(k.tokens, own.Alias)
			k.size -= own.CacheSize()
		case own.by == r:
			own.by = nil
		default:
			own.uses--
		}
	}
	r.ownTokens = nil
}

// undo reverts what prepare has done for r since its list of tokens had length n.
func (k *tokenSender) undo(r *Request, n int) {
	for i := len(r.ownTokens) - 1; i >= n; i-- {
		own := r.ownTokens[i]
		switch {
		case own.deletedBy == r:
			own.deletedBy = nil
		case own.uses > 0:
			own.uses--
		default:
			delete(k.tokens, own.Alias)
			k.size -= own.CacheSize()
		}
	}
	r.ownTokens = r.ownTokens[:n]
}
