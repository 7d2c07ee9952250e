package hook

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sluice/auth"
	"sluice/internal/bounds"
	"sluice/moqt"
	"sluice/relay"
)

// maxTTL is how many seconds an answer is used at most. A mistake in a service, such as milliseconds for seconds, must
// not allow something for years.
const maxTTL = 24 * 60 * 60

// maxSubject is the longest subject in bytes. It appears in logs.
const maxSubject = 256

// answer is the service's answer.
type answer struct {
	Allow   *bool     `json:"allow"`
	Reason  string    `json:"reason"`  // of a refusal, for the peer
	Expired bool      `json:"expired"` // the refusal is about a token that is too old
	Subject string    `json:"subject"` // who is allowed, for quotas: a user, a customer, a token
	TTL     float64   `json:"ttl"`     // for how many seconds the answer is used; then open requests are reviewed
	Expires time.Time `json:"expires"` // when the permission ends, in RFC 3339
}

var errNoDecision = errors.New(`the answer has no decision; "allow" must be true or false`)

// parseAnswer parses the body of an answer.
func parseAnswer(body []byte) (a answer, err error) {
	if err := json.Unmarshal(body, &a); err != nil {
		return a, fmt.Errorf("the answer is not the expected JSON object: %w", err)
	}
	if a.Allow == nil {
		return a, errNoDecision
	}
	return a, cmp.Or(
		bounds.Check("ttl", a.TTL, 0, maxTTL),
		bounds.Check("length of subject", len(a.Subject), 0, maxSubject))
}

// decision is an answer of the service, and how long it is used.
type decision struct {
	until   time.Time // zero: for one request
	expires time.Time // of the permission; zero: never
	subject string
	refused *moqt.RequestError
}

// decide makes a decision of an answer that came at the time now.
func (a *answer) decide(now time.Time) decision {
	d := decision{expires: a.Expires, subject: a.Subject}
	if a.TTL > 0 {
		d.until = now.Add(time.Duration(a.TTL * float64(time.Second)))
	}
	if !*a.Allow {
		d.refused = refusal(a.Expired, a.Reason)
	}
	return d
}

func refusal(expired bool, reason string) *moqt.RequestError {
	code := moqt.RequestUnauthorized
	if expired {
		code = moqt.RequestExpiredAuthToken
	}
	return auth.Refuse(code, reason)
}

// isCurrent reports whether the decision may be used again.
func (d *decision) isCurrent(now time.Time) bool { return now.Before(d.until) }

// apply returns the decision for a request at the time now.
func (d *decision) apply(now time.Time) (relay.Grant, error) {
	switch {
	case d.refused != nil:
		return relay.Grant{}, d.refused
	case !d.expires.IsZero() && !now.Before(d.expires):
		return relay.Grant{}, auth.Refuse(moqt.RequestExpiredAuthToken, "the permission has expired")
	}
	return relay.Grant{Expires: d.expires, Review: d.until, Subject: d.subject}, nil
}
