// Package natsengine has the engines of clusters: a NATS server in this process ([Embed]), which finds the other nodes'
// servers, or a connection to an operator's NATS servers ([Dial]). Both use core NATS only: nothing is stored.
//
// Nothing is open by default. An embedded server accepts only the client in its process, and other servers only at the
// address that the configuration names, with the token. Beyond the loopback interface both sides prove who they are by
// certificates of one authority (mutual TLS); without them, [Embed] and [Dial] refuse.
package natsengine
