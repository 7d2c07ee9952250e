package auth

import (
	"errors"

	"sluice/moqt"
)

// Refuse returns the error with which an Authorizer refuses a request.
func Refuse(code moqt.RequestErrorCode, reason string) *moqt.RequestError {
	return &moqt.RequestError{Code: code, Reason: reason}
}

// Refusals collects the errors of several tokens or schemes, none of which allows a request, and keeps the most
// telling. The zero value has none.
type Refusals struct {
	err  error
	rank int
}

// Add adds an error.
func (r *Refusals) Add(err error) {
	if n := rankOf(err); n > r.rank {
		r.err, r.rank = err, n
	}
}

// Err returns the error that tells the most. It is never nil: without errors it is UNAUTHORIZED, with a reason.
func (r *Refusals) Err(reason string) error {
	if r.err == nil {
		return Refuse(moqt.RequestUnauthorized, reason)
	}
	return r.err
}

// rankOf orders refusals. A scheme without an answer comes first: it might have allowed the request, so an open request
// must not end because the other schemes do not allow it.
func rankOf(err error) int {
	refused, ok := errors.AsType[*moqt.RequestError](err)
	if !ok {
		return 5
	}
	switch refused.Code {
	case moqt.RequestInternalError, moqt.RequestExcessiveLoad:
		return 4
	case moqt.RequestExpiredAuthToken:
		return 3
	case moqt.RequestMalformedAuthToken:
		return 2
	}
	return 1
}
