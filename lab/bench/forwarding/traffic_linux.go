package forwarding

import (
	"time"

	"sluice/rtt/flood"
)

// traffic makes the kernel forward packets in the network namespace of the thread that made it.
type traffic interface {
	// forward makes the kernel forward a number of segments, and their ACKs back.
	forward(segments int) (passed, error)
	Close() error
}

// passed is what a router has forwarded.
type passed struct {
	packets, bytes int
	used           time.Duration // CPU time that this took, with what made the packets
}

func (p passed) plus(more passed) passed {
	return passed{p.packets + more.packets, p.bytes + more.bytes, p.used + more.used}
}

// traffic returns the traffic of a run.
func (c Config) traffic(flows int) (traffic, error) {
	if c.EndHosts {
		return newEndHosts(flows)
	}
	router, err := flood.New(flows)
	return flooded{router}, err
}

// flooded is traffic that the kernel makes.
type flooded struct{ *flood.Router }

func (f flooded) forward(segments int) (passed, error) {
	used, err := f.Forward(segments)
	return passed{2 * segments, length(segments), used}, err
}

// length returns the bytes of segments and their ACKs.
func length(segments int) int { return segments * (flood.DataFrame + flood.ACKFrame) }
