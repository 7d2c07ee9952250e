package cat

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fxamacker/cbor/v2"

	"sluice/auth/signed"
)

// Keys of claims: of RFC 8392 §4, of CTA-5007, and of the draft, with the values in its Appendix A.
const (
	claimIssuer    = 1
	claimSubject   = 2
	claimAudience  = 3
	claimExpires   = 4
	claimNotBefore = 5
	claimIssuedAt  = 6
	claimID        = 7
	claimVersion   = 310 // catv
	claimRenewal   = 323 // catr
	claimMOQT      = 327 // moqt
	claimReview    = 328 // moqt-reval
)

// firstPrivate is the largest of the claim keys for private use (RFC 8392 §9.1): the ones below have no meaning for the
// relay.
const firstPrivate = -65537

// maxReview is the longest interval of revalidation that is kept: a year.
const maxReview = 365 * 24 * 60 * 60

// decodeClaims decodes the payload of a token.
func decodeClaims(payload []byte) (*signed.Claims, error) {
	var all map[any]cbor.RawMessage
	if err := decoding.Unmarshal(payload, &all); err != nil {
		return nil, fmt.Errorf("the claims of the token are malformed: %w", err)
	}
	c := &signed.Claims{}
	for key, raw := range all {
		n, ok := key.(int64)
		if !ok || n <= firstPrivate {
			continue // a name, or a number for private use
		}
		if err := decodeClaim(c, n, raw); err != nil {
			return nil, fmt.Errorf("claim %d of the token: %w", n, err)
		}
	}
	return c, nil
}

var errUnknownClaim = errors.New("the relay does not know it, and it may be a restriction")

func decodeClaim(c *signed.Claims, key int64, raw cbor.RawMessage) (err error) {
	switch key {
	case claimIssuer:
		return decoding.Unmarshal(raw, &c.Issuer)
	case claimSubject:
		return decoding.Unmarshal(raw, &c.Subject)
	case claimAudience:
		c.Audiences, err = decodeAudience(raw)
	case claimExpires:
		c.Expires, err = decodeTime(raw)
	case claimNotBefore:
		c.NotBefore, err = decodeTime(raw)
	case claimMOQT:
		c.Scopes, err = decodeScopes(raw)
	case claimReview:
		c.Review, err = decodeReview(raw)
	case claimIssuedAt, claimID, claimVersion, claimRenewal:
	default:
		return errUnknownClaim
	}
	return err
}

// decodeAudience decodes one name, or several.
func decodeAudience(raw cbor.RawMessage) (names []string, err error) {
	var one string
	if decoding.Unmarshal(raw, &one) == nil {
		return []string{one}, nil
	}
	err = decoding.Unmarshal(raw, &names)
	return names, err
}

// decodeTime decodes a NumericDate (RFC 8392 §2).
func decodeTime(raw cbor.RawMessage) (time.Time, error) {
	seconds, err := decodeNumber(raw)
	return signed.Time(seconds), err
}

// decodeReview decodes the seconds of moqt-reval; with 0 a token is not validated again.
func decodeReview(raw cbor.RawMessage) (time.Duration, error) {
	seconds, err := decodeNumber(raw)
	if err == nil && seconds < 0 {
		err = fmt.Errorf("%v: an interval must not be negative", seconds)
	}
	return time.Duration(min(seconds, maxReview) * float64(time.Second)), err
}

func decodeNumber(raw cbor.RawMessage) (n float64, err error) {
	if err := decoding.Unmarshal(raw, &n); err != nil {
		return 0, err
	}
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, fmt.Errorf("%v: must be a number", n)
	}
	return n, nil
}
