// Package signed authorizes requests by signed tokens: an issuer signs what the bearer may do, and the relay needs the
// issuer's keys only.
//
// A [Scheme] is a [relay.Authorizer] for the tokens of one [Format], such as sluice/auth/jwt or sluice/auth/cat. It
// finds the tokens of a request that have the format, verifies them with a key of its [Keys], and checks their [Claims]
// against its [Rules] and against the request. Verified tokens are stored, so that a signature is verified once, and
// again when the keys have changed.
//
// Keys come from a file or URL with a JSON Web Key Set (RFC 7517), and are read again: a file when it has changed, a
// URL from time to time, and when a token names a key that is not in the set. If that fails, the last keys stay in
// force, and if there were none yet, requests are refused with INTERNAL_ERROR.
// When keys have changed, the relay reviews all open requests; so a key that is removed ends what its tokens allowed.
package signed
