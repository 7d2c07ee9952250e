// Package auth combines the authorization schemes of a relay, and has what they share. Each scheme is a
// [relay.Authorizer]:
//
//   - [relay.TokenFile]: static tokens,
//   - package [sluice/auth/jwt]: signed tokens in JSON, and package [sluice/auth/signed], which has what all formats of
//     signed tokens share,
//   - package [sluice/auth/hook]: an HTTP service decides.
//
// [Any] allows what at least one of several schemes allows.
package auth
