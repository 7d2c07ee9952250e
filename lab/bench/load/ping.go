package load

// Pinged is the report of a bystander on the pings between two commands.
type Pinged struct {
	// Delays are the times from when a ping was due until its reply arrived, milliseconds, sorted. They count from when
	// a ping was due, because a processor that is taken keeps a bystander from sending, too.
	Delays []float64 `json:"delays"`
	Lost   int       `json:"lost"` // pings without a reply
}
