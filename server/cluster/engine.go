package cluster

// Engine carries messages between the nodes of a cluster. Messages may get lost, but one node's arrive in the order in
// which it sent them.
type Engine interface {
	// Publish sends data, which nobody changes later, to all nodes that subscribe to the subject. It does not wait for
	// anything, and calls no subscriber before it returns.
	Publish(subject string, data []byte) error
	// Subscribe calls f for the messages whose subject matches one of the patterns, one after another. In a pattern,
	// "*" stands for a token, and ">" at the end for one or more.
	Subscribe(f func(subject string, data []byte), patterns ...string) error
	// Present reports whether messages of other nodes can arrive. While it returns false, silence means nothing.
	Present() bool
	// Alone reports whether that is because no other node's engine has a connection with this one, which works.
	Alone() bool
	// Close ends the engine. After it, f is not called any more.
	Close() error
}
