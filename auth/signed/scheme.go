package signed

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/go-jose/go-jose/v4"
	lru "github.com/hashicorp/golang-lru/v2"

	"sluice/auth"
	"sluice/moqt"
	"sluice/relay"
)

// Limits of a Scheme.
const (
	// MaxToken is the largest token in bytes. Tokens of common issuers have 1 to 3 KiB.
	MaxToken = 8 << 10
	// maxTried is how many keys are tried for a token that does not name its key.
	maxTried = 8
	// maxTries is how many keys are tried for the tokens of a request: a peer may send many that are forged.
	maxTries = 2 * maxTried
	// maxStored is how many verified tokens are stored. An entry takes about 1 KiB.
	maxStored = 4096
)

// Format is a format of tokens.
type Format interface {
	// Recognizes reports whether a token may have the format. It only looks at the first bytes.
	Recognizes(moqt.Token) bool
	// Parse parses a token of at most MaxToken bytes, and does not verify it.
	Parse(value []byte) (Token, error)
}

// Token is a token that was parsed.
type Token interface {
	// KeyID returns the id of the key that the token names, or "".
	KeyID() string
	// Signed returns the signed bytes. They are the same, in whatever form the bearer writes the token.
	Signed() []byte
	// Verify returns an error unless the token was signed with this key, and the key is meant for the token's
	// algorithm.
	Verify(*jose.JSONWebKey) error
	// Claims returns what the token says. It may be called before Verify, but then anybody may have said it.
	Claims() (*Claims, error)
}

// Scheme is a relay.Authorizer.
type Scheme struct {
	format Format
	keys   *Keys
	rules  Rules
	stored *lru.Cache[digest, verified]
}

type digest [sha256.Size]byte

// verified is a token that was verified with keys of a version.
type verified struct {
	claims  *Claims
	version uint64
}

// New returns a Scheme.
func New(format Format, keys *Keys, rules Rules) (*Scheme, error) {
	stored, err := lru.New[digest, verified](maxStored)
	return &Scheme{format: format, keys: keys, rules: rules, stored: stored}, err
}

// Changed implements relay.Reviewer.
func (s *Scheme) Changed() bool { return s.keys.Changed() }

// Authorize implements relay.Authorizer. If several tokens allow the request, the longest lasting counts.
func (s *Scheme) Authorize(ctx context.Context, r relay.AuthRequest) (relay.Grant, error) {
	var refusals auth.Refusals
	var best *Claims
	now, tries := time.Now(), maxTries
	for _, t := range r.Tokens {
		if !s.format.Recognizes(t) {
			continue
		}
		c, err := s.check(ctx, t.Value, &r, now, &tries)
		switch {
		case err != nil:
			refusals.Add(err)
		case best == nil || auth.Outlasts(c.Expires, best.Expires):
			best = c
		}
	}
	if best == nil {
		return relay.Grant{}, refusals.Err("an authorization token is required")
	}
	return best.grant(now), nil
}

// check returns the claims of a token that allows the request.
func (s *Scheme) check(
	ctx context.Context, value []byte, r *relay.AuthRequest, now time.Time, tries *int,
) (*Claims, error) {
	c, err := s.claims(ctx, value, tries)
	if err != nil {
		return nil, err
	}
	if refused := s.rules.Check(c, now); refused != nil {
		return nil, refused
	}
	if !c.Allows(r) {
		return nil, auth.Refuse(moqt.RequestUnauthorized, "the token does not allow this")
	}
	return c, nil
}

// claims returns the claims of a token that is signed with one of the keys. It takes those that it tries from tries.
func (s *Scheme) claims(ctx context.Context, value []byte, tries *int) (*Claims, error) {
	if len(value) > MaxToken {
		return nil, auth.Refuse(moqt.RequestMalformedAuthToken, "the token is too long")
	}
	d := digest(sha256.Sum256(value))
	if v, ok := s.stored.Get(d); ok && v.version == s.keys.Version() {
		return v.claims, nil
	}
	if *tries == 0 {
		return nil, auth.Refuse(moqt.RequestUnauthorized, "there are too many tokens before this one")
	}
	token, err := s.format.Parse(value)
	if err != nil {
		return nil, auth.Refuse(moqt.RequestMalformedAuthToken, err.Error())
	}
	keys, version := s.keys.Find(ctx, token.KeyID())
	if version == 0 {
		return nil, refuseUntilKnown()
	}
	keys = keys[:min(len(keys), maxTried, *tries)]
	*tries -= len(keys)
	if err := Verify(token, keys); err != nil {
		return nil, auth.Refuse(moqt.RequestUnauthorized, err.Error())
	}
	c, err := token.Claims()
	if err != nil {
		return nil, auth.Refuse(moqt.RequestMalformedAuthToken, err.Error())
	}
	c.account = c.accountOf(sha256.Sum256(token.Signed()))
	s.stored.Add(d, verified{c, version})
	return c, nil
}

var (
	errNoKey     = errors.New("the relay has no key for the token")
	errSignature = errors.New("the signature of the token is wrong")
)

// retryAfter is when a peer should repeat a request that came before the keys.
const retryAfter = 5 * time.Second

// refuseUntilKnown refuses a request as long as there are no keys: the token may be right.
func refuseUntilKnown() error {
	refused := auth.Refuse(moqt.RequestInternalError, "the relay cannot check tokens yet")
	refused.RetryInterval = uint64(retryAfter.Milliseconds()) + 1
	return refused
}

// Verify verifies a token with the first few of some keys.
func Verify(t Token, keys []jose.JSONWebKey) error {
	err := errNoKey
	for i := range keys[:min(len(keys), maxTried)] {
		if t.Verify(&keys[i]) == nil {
			return nil
		}
		err = errSignature
	}
	return err
}
