// Package system describes the relays that a benchmark measures.
//
// A relay is a black box. Its [Spec] has a name and a command with placeholders for the address to listen at and the
// certificate to use. [Sluice] returns the variants of Sluice that are measured, [Unprotected] those without
// packet protection, [Peer] a relay of others that lab/bench/install-peers installs.
package system
