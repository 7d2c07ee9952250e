package signed

import (
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"sluice/auth"
	"sluice/moqt"
	"sluice/relay"
)

// clockSkew is how far an issuer's clock may be ahead, so that a token can be used right after it was made.
const clockSkew = 30 * time.Second

// MinReview is the shortest interval of revalidation that a token may demand: the relay looks no more often.
const MinReview = time.Second

// Claims are the contents of a token.
type Claims struct {
	Issuer    string
	Subject   string // who the token is for: all tokens of a subject share a quota
	Audiences []string
	Expires   time.Time     // zero: never
	NotBefore time.Time     // zero: always
	Review    time.Duration // how often the relay has to validate the token again; zero: not at all

	// Scopes say what the bearer may do. One of them has to allow a request.
	Scopes []Scope

	account string // relay.Grant.Subject
}

// Scope is something that a token allows.
type Scope interface {
	// Allows reports whether the bearer may make a request.
	Allows(*relay.AuthRequest) bool
	// String describes the scope for people.
	String() string
}

// Allows reports whether a scope allows the request.
func (c *Claims) Allows(r *relay.AuthRequest) bool {
	return slices.ContainsFunc(c.Scopes, func(s Scope) bool { return s.Allows(r) })
}

// grant returns the permission that the claims give at the time now.
func (c *Claims) grant(now time.Time) relay.Grant {
	g := relay.Grant{Expires: c.Expires, Subject: c.account}
	if c.Review > 0 {
		g.Review = now.Add(c.Review)
	}
	return g
}

// maxAccount is the longest relay.Grant.Subject with names of the token in it. It appears in logs.
const maxAccount = 256

// accountOf returns the bearer's name in quotas: the subject of the token, so that all tokens of a user count together,
// or else the digest of the signed bytes. A bearer who writes the token in another way gets no further quota.
func (c *Claims) accountOf(d digest) string {
	account := fmt.Sprintf("%q of %q", c.Subject, c.Issuer)
	if c.Subject == "" || len(account) > maxAccount {
		return "sha256:" + hex.EncodeToString(d[:])
	}
	return account
}

// Rules are the conditions for all tokens.
type Rules struct {
	Issuers []string // tokens have to be of one of them; empty: of any whose key is in the set
	// Audiences are the names of this relay. A token has to have one of them. Without names the relay refuses tokens
	// that have an audience, because they are for somebody else (RFC 7519 §4.1.3).
	Audiences []string
}

// Check returns an error if the claims are not acceptable at the time now.
func (r *Rules) Check(c *Claims, now time.Time) *moqt.RequestError {
	switch {
	case !c.Expires.IsZero() && !now.Before(c.Expires):
		return auth.Refuse(moqt.RequestExpiredAuthToken, "the token has expired")
	case now.Add(clockSkew).Before(c.NotBefore):
		return auth.Refuse(moqt.RequestUnauthorized, "the token is not valid yet")
	case len(r.Issuers) > 0 && !slices.Contains(r.Issuers, c.Issuer):
		return auth.Refuse(moqt.RequestUnauthorized, "the token is of another issuer")
	case !r.isAudience(c.Audiences):
		return auth.Refuse(moqt.RequestUnauthorized, "the token is for another audience")
	case c.Review < 0 || c.Review > 0 && c.Review < MinReview:
		return auth.Refuse(moqt.RequestUnauthorized, fmt.Sprintf(
			"the token demands revalidation after %v; the relay does it after %v or more", c.Review, MinReview))
	}
	return nil
}

// isAudience reports whether the relay is meant by the audiences of a token.
func (r *Rules) isAudience(audiences []string) bool {
	if len(r.Audiences) == 0 {
		return len(audiences) == 0
	}
	return slices.ContainsFunc(audiences, func(a string) bool { return slices.Contains(r.Audiences, a) })
}

// maxTime is the last second of the year 9999, which RFC 3339 can write.
const maxTime = 253402300799

// Time returns the time of a claim, which is in seconds since 1970. Times after the year 9999 become its end: no sum
// with them overflows.
func Time(seconds float64) time.Time {
	return time.UnixMilli(int64(1000 * max(0, min(seconds, maxTime))))
}
