// Package jwt reads and makes JSON Web Tokens (RFC 7519) that say what a peer may do. Only registered claims are used:
// iss, sub, aud, exp, nbf (RFC 7519 §4.1) and scope (RFC 8693 §4.2), whose entries are permissions such as
// "publish:live/studio1". Other entries of scope, and other claims, have no meaning for the relay.
//
// Tokens have to be signed with RS256, PS256, ES256, ES384 or EdDSA, by a key that is meant for that algorithm. Tokens
// without a signature, with a shared secret, or encrypted ones are refused; so are tokens that never expire.
package jwt
