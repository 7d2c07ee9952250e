// Package charge counts what the sessions of one source address, or with one token, use together, and refuses what
// exceeds their [Quota]. A session has an [Account] for its address, and one for each token that was accepted from it:
// a request is charged to its [Payers].
package charge
