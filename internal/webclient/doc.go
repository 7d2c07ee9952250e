// Package webclient makes HTTP requests to services that the operator of a relay has named: an authorization service, a
// key server, a receiver of events.
//
// A [Client] has one URL. It bounds the time of a request and the size of an answer, and it follows no redirects,
// because a request may hold credentials that are for this URL only. Its errors do not repeat the URL, which may hold
// a password. With [Secrets] it signs what it posts.
package webclient
