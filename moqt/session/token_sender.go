package session

import (
	"errors"
	"fmt"

	"sluice/moqt"
)

// Mistakes of applications with token aliases.
var (
	errUnknownToken = errors.New("the authorization token alias is not registered")
	errTokenInUse   = errors.New("the authorization token alias is in use: wait for the responses to all requests with it")
)

// tokenSender knows which of our authorization tokens the peer has registered, and keeps the rules for senders
// (draft §10.2.2, §10.3.1.4): no registration exceeds the peer's cache; an alias is used on another stream only after
// the response to the message that registered it, and deleted only when no message with it lacks its response.
// Where a rule forbids an alias, the value is sent instead, which has the same effect.
//
// It is guarded by the session's mu.
type tokenSender struct {
	limit  uint64 // the peer's MAX_AUTH_TOKEN_CACHE_SIZE; 0 until it is known
	size   uint64 // of what is registered
	tokens map[uint64]*ownToken
}

// ownToken is a token for which the application chose an alias.
type ownToken struct {
	moqt.Token
	registered bool     // with the peer, too
	by         *Request // whose response would confirm that it is registered; nil when it came
	deletedBy  *Request // whose response would confirm that it is deleted
	uses       int      // of the alias, in messages without response
}

// setup enters the tokens of our SETUP. Until the peer's SETUP has come, they are sent by value.
func (k *tokenSender) setup(tokens []moqt.Token) {
	k.tokens = make(map[uint64]*ownToken)
	for _, t := range tokens {
		if t.AliasType == moqt.AliasRegister {
			k.tokens[t.Alias] = &ownToken{Token: t}
		}
	}
}

// setLimit takes the limit of the peer's SETUP, and finds out which tokens of ours the peer could register.
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

// prepare returns the tokens as they may be sent in a message on the stream of r. If the message is not sent after all,
// undo takes that back.
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

// delete reports whether the peer has to be told.
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

// confirmTokens is called after a response. When every message on the stream has one, the peer has done to our tokens
// what they say.
func (r *Request) confirmTokens() {
	if len(r.ownUpdates) == 0 {
		r.s.ownTokens.confirm(r)
	}
}

func (k *tokenSender) confirm(r *Request) {
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

// undo takes back what prepare has done for r since its list of tokens had length n.
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
