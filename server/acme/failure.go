package acme

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/mholt/acmez/v3/acme"
	"golang.org/x/net/idna"
)

const (
	// checkInterval is how often a certificate is looked at. CertMagic renews it when a third of its time is left, or
	// when the authority says so (ARI, RFC 9773), and at the latest five intervals before its end.
	checkInterval = 10 * time.Minute

	// Pauses after failures grow: five tries in the first hour, as many failed challenges as Let's Encrypt allows.
	firstPause  = time.Minute
	pauseFactor = 3
	maxPause    = 6 * time.Hour
	// limitedPause is the shortest one after an answer that there were too many requests. CertMagic does not show
	// Retry-After; the limits of public authorities are of an hour or more.
	limitedPause = time.Hour
)

// errClock is about a certificate that is not valid now, though it is new. Asking for another one does not help.
var errClock = errors.New("set the clock of this machine")

// checkClock returns an error if a certificate is not valid at a time.
func checkClock(c *x509.Certificate, now time.Time) error {
	if now.Before(c.NotBefore) || now.After(c.NotAfter) {
		return fmt.Errorf("the certificate is valid from %s to %s, and the clock says %s: %w", c.NotBefore, c.NotAfter,
			now.UTC(), errClock)
	}
	return nil
}

// pause returns how long to wait after an error that follows n others.
func pause(err error, n int) time.Duration {
	d := firstPause
	for ; n > 0 && d < maxPause; n-- {
		d *= pauseFactor
	}
	if limited(err) {
		d = max(d, limitedPause)
	}
	if errors.Is(err, errClock) {
		d = maxPause
	}
	return min(d, maxPause)
}

// limited reports whether the authority has had too many requests. Its answer to HEAD, by which the library asks for a
// nonce, has no problem document: the library's text has the status.
func limited(err error) bool {
	p, _ := errors.AsType[acme.Problem](err)
	return p.Type == acme.ProblemTypeRateLimited || strings.Contains(err.Error(), "HTTP 429")
}

const (
	reach = "the authority must reach this relay by the name, at TCP port 443, or at port 80 with --acme-http: look " +
		"at DNS, firewalls and forwarded ports"
	refused = "the authority refuses the account: another --acme-email, or another --acme-dir, makes a new one"
)

// advice says what to do about a problem of ACME (RFC 8555 §6.7).
var advice = map[string]string{
	acme.ProblemTypeExternalAccountRequired: "the authority serves only its customers: choose another one by --acme-ca",
	acme.ProblemTypeRejectedIdentifier:      "the authority does not serve this name: choose another one by --acme-ca",
	acme.ProblemTypeInvalidContact:          "change --acme-email",
	acme.ProblemTypeUnsupportedContact:      "change --acme-email",
	acme.ProblemTypeUserActionRequired:      refused,
	acme.ProblemTypeUnauthorized:            refused,
	acme.ProblemTypeCAA:                     "the domain's CAA record names other authorities",
	acme.ProblemTypeDNS:                     reach,
	acme.ProblemTypeConnection:              reach,
	acme.ProblemTypeTLS:                     reach,
	acme.ProblemTypeRateLimited:             "more tries do not help; relays with the same name can share --acme-dir",
}

// explain adds to an error what to do about it.
func explain(err error) error {
	problem, _ := errors.AsType[acme.Problem](err)
	text := advice[problem.Type]
	if _, ok := problem.Resource.(acme.Authorization); ok && text == refused {
		text = reach // a challenge has failed
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		text = "--acme-ca-root says whom to trust"
	}
	if limited(err) {
		text = advice[acme.ProblemTypeRateLimited]
	}
	if text == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, text)
}

var hostNames = idna.New(idna.MapForLookup(), idna.StrictDomainName(true), idna.VerifyDNSLength(true))

// CheckName returns a host name as certificates have it, in lower case and ASCII, or the mistake in it.
func CheckName(name string) (string, error) {
	ascii, err := hostNames.ToASCII(strings.TrimSuffix(name, "."))
	if _, notAddress := netip.ParseAddr(ascii); err != nil || notAddress == nil {
		return "", fmt.Errorf("%q: must be a host name such as relay.example, without port or wildcard", name)
	}
	return ascii, nil
}
