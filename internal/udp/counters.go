package udp

import (
	"errors"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/cpu"
)

// failure is why the system did not take a message. Each has a counter.
type failure uint8

// Failures and their names, which are labels of a metric.
const (
	tooLarge   failure = iota // the packet is too large for the device (EMSGSIZE)
	noBuffer                  // the system had no buffer (ENOBUFS)
	noGSO                     // it refused a train but took each of its packets: no more trains on that route
	otherError                // any other error
	numFailures
)

var failureNames = [numFailures]string{"write_too_large", "write_no_buffer", "write_no_gso", "write_error"}

func (f failure) String() string {
	if f < numFailures {
		return failureNames[f]
	}
	return "unknown"
}

// Counters count what a socket does. The zero value is ready to use. They share no cache line with another socket's,
// because each message changes them.
type Counters struct {
	packets, messages, calls atomic.Uint64
	failures                 [numFailures]atomic.Uint64
	gso                      atomic.Bool
	_                        cpu.CacheLinePad
}

// Counts is a snapshot of Counters.
type Counts struct {
	Packets  uint64            // that the system took
	Messages uint64            // that it took: single packets and trains
	Calls    uint64            // system calls
	Failures map[string]uint64 // by reason, without zeros
	GSO      bool              // trains are in use
}

// Packets returns how many packets the system took.
func (c *Counters) Packets() uint64 { return c.packets.Load() }

// Counts returns a snapshot.
func (c *Counters) Counts() Counts {
	s := Counts{
		Packets: c.packets.Load(), Messages: c.messages.Load(), Calls: c.calls.Load(), GSO: c.gso.Load(),
		Failures: make(map[string]uint64),
	}
	for f := range c.failures {
		if n := c.failures[f].Load(); n > 0 {
			s.Failures[failure(f).String()] = n
		}
	}
	return s
}

// wrote counts packets of one message, which the system took or refused with an error.
func (c *Counters) wrote(packets int, err error) {
	switch {
	case err == nil:
		c.messages.Add(1)
		c.packets.Add(uint64(packets))
	case errors.Is(err, syscall.EMSGSIZE):
		c.failures[tooLarge].Add(1)
	case errors.Is(err, syscall.ENOBUFS):
		c.failures[noBuffer].Add(1)
	default:
		c.failures[otherError].Add(1)
	}
}
