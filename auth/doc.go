// Package auth combines the authorization schemes of a relay, and has what they share. Each scheme is a
// [relay.Authorizer]:
//
//   - [relay.TokenFile]: static tokens,
//   - packages [sluice/auth/jwt] and [sluice/auth/cat]: signed tokens in JSON and in CBOR; package [sluice/auth/signed]
//     has what both share,
//   - package [sluice/auth/hook]: an HTTP service decides.
//
// [Any] allows what at least one of several schemes allows.
package auth
