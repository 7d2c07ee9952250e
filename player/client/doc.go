// Package client serves the sessions of a publisher or a player with a relay, which package keep keeps.
//
// [Run] asks its caller for an [Endpoint] for each session, a [Link], and calls the Endpoint's Serve. Publishers and
// players are Endpoints; they keep what outlasts a session, such as the input of a publisher. Serve calls
// [Link.Established] when the session can replace its predecessor. When the relay sends GOAWAY, Run connects to the
// new URI and serves the new session beside the old one, until the new one is established; then it ends the context of
// the old Serve.
//
// That a relay has been started again is noticed by package transport, which probes a relay that was sending and has
// become silent.
package client
