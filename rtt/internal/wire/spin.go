package wire

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// Spin is how an endpoint sets the spin bit.
type Spin int

// The choices of RFC 9000 §17.4.
const (
	SpinOn       Spin = iota
	SpinConstant      // one value for the connection
	SpinRandom        // each packet
)

// SpinPath is a QUIC connection in its 1-RTT phase, whose packets pass an observer between client and server.
type SpinPath struct {
	Client, Server           Spin
	ToClient, ToServer       time.Duration // one way, from the observer
	EveryClient              time.Duration // between packets of the client
	EveryServer              time.Duration
	Duration                 time.Duration
	Reorder                  float64       // probability that a packet is late by ReorderBy when it passes the observer
	ReorderBy                time.Duration // more than the interval: it is overtaken
	Loss                     float64       // probability that a packet is lost before it passes the observer
	Seed                     uint64
	clientState, serverState spinState
}

// SpinPacket is a packet as it passes the observer.
type SpinPacket struct {
	At         time.Duration
	FromClient bool
	Value      bool
}

// spinState is the state of an endpoint: the highest packet number that it has received, and that packet's bit.
type spinState struct {
	highest int
	value   bool
}

type spinEvent struct {
	at         time.Duration
	fromClient bool
	number     int
	value      bool
	arrival    bool // at the other end; otherwise it is sent now
}

// Packets simulates the connection and returns the packets in the order in which they pass the observer.
func (s SpinPath) Packets() []SpinPacket {
	rng := rand.New(rand.NewPCG(s.Seed, 1))
	var seen []SpinPacket
	queue := s.sends()
	for len(queue) > 0 {
		e := queue[0]
		queue = queue[1:]
		if e.arrival {
			s.receive(e)
			continue
		}
		e.value = s.value(e.fromClient, rng)
		own, far := s.ToClient, s.ToServer
		if !e.fromClient {
			own, far = far, own
		}
		if rng.Float64() < s.Loss {
			continue
		}
		passes := e.at + own
		if rng.Float64() < s.Reorder {
			passes += s.ReorderBy
		}
		seen = append(seen, SpinPacket{passes, e.fromClient, e.value})
		e.at, e.arrival = passes+far, true
		i, _ := slices.BinarySearchFunc(queue, e, func(a, b spinEvent) int { return cmp.Compare(a.at, b.at) })
		queue = slices.Insert(queue, i, e)
	}
	slices.SortStableFunc(seen, func(a, b SpinPacket) int { return cmp.Compare(a.At, b.At) })
	return seen
}

// sends returns the packets that both ends send, in order.
func (s SpinPath) sends() (queue []spinEvent) {
	for i := 1; time.Duration(i)*s.EveryClient < s.Duration; i++ {
		queue = append(queue, spinEvent{at: time.Duration(i) * s.EveryClient, fromClient: true, number: i})
	}
	for i := 1; time.Duration(i)*s.EveryServer < s.Duration; i++ {
		queue = append(queue, spinEvent{at: time.Duration(i) * s.EveryServer, number: i})
	}
	slices.SortStableFunc(queue, func(a, b spinEvent) int { return cmp.Compare(a.at, b.at) })
	return queue
}

func (s *SpinPath) receive(e spinEvent) {
	state := &s.clientState
	if e.fromClient {
		state = &s.serverState
	}
	if e.number > state.highest {
		*state = spinState{e.number, e.value}
	}
}

// value returns the bit that an endpoint sends: the server reflects it, the client inverts it.
func (s *SpinPath) value(fromClient bool, rng *rand.Rand) bool {
	policy, value := s.Server, s.serverState.value
	if fromClient {
		policy, value = s.Client, s.clientState.highest > 0 && !s.clientState.value
	}
	switch policy {
	case SpinConstant:
		return true
	case SpinRandom:
		return rng.IntN(2) == 1
	}
	return value
}
