package trial

// Machines are machines of their own for publisher, relay and subscribers. The relay's is this one.
type Machines struct {
	Broker string `json:"broker"` // the socket of the broker, which reaches the others
	// Up and Down are the addresses at which publisher and subscribers reach the relay. They may be the same.
	Up   string `json:"up"`
	Down string `json:"down"`
}
