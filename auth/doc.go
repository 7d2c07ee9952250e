// Package auth combines the authorization schemes of a relay, and has their common parts. Each scheme is a
// [relay.Authorizer]:
//
//   - [TokenFile]: static tokens,
//   - packages [sluice/auth/jwt] and [sluice/auth/cat]: signed tokens in JSON and in CBOR; package [sluice/auth/signed]
//     has their common parts,
//   - package [sluice/auth/hook]: an HTTP service decides.
//
// [Any] allows a request if at least one of several schemes does.
package auth
