package steer

import (
	"crypto/rand"

	"github.com/quic-go/quic-go"
)

// Number is the number of a process, among those that share a port.
type Number uint8

// Process is a process that shares the port, and still has sessions while it drains.
type Process struct {
	PID      int `json:"pid"`
	Sessions int `json:"sessions"`
}

// Arrivals counts the datagrams of a socket, by the CPU that they came on.
type Arrivals struct {
	SameCPU  uint64 `json:"same_cpu"` // on the CPU where the reader had woken last
	OtherCPU uint64 `json:"other_cpu"`
}

// IDs makes the connection IDs of a socket: they name the process and the number of the socket.
type IDs struct {
	Process Number
	Socket  int // less than MaxSockets
}

var _ quic.ConnectionIDGenerator = IDs{}

// GenerateConnectionID implements [quic.ConnectionIDGenerator]. Process and socket are in it, the rest is random.
func (n IDs) GenerateConnectionID() (quic.ConnectionID, error) {
	id := [ConnectionIDLen]byte{byte(n.Process), ^byte(n.Process)}
	_, _ = rand.Read(id[2:]) // never fails
	id[2] = id[2]&^(MaxSockets-1) | byte(n.Socket)
	return quic.ConnectionIDFromBytes(id[:]), nil
}

// ConnectionIDLen implements [quic.ConnectionIDGenerator].
func (IDs) ConnectionIDLen() int { return ConnectionIDLen }

// Named reads this much of a packet (RFC 9000 §17.2, §17.3): a short header has the connection ID behind its first
// byte, a long one behind the version and a length.
const (
	frontLen   = 9
	longHeader = 0x80
	shortIDAt  = 1
	longIDLen  = 5
	longIDAt   = 6
)

// Named returns the socket that a packet's Destination Connection ID names, as the program in the kernel finds it. A
// packet may name none.
func Named(packet []byte) (socket IDs, ok bool) {
	if len(packet) < frontLen {
		return IDs{}, false
	}
	id := packet[shortIDAt:]
	if packet[0]&longHeader != 0 {
		if packet[longIDLen] != ConnectionIDLen {
			return IDs{}, false
		}
		id = packet[longIDAt:]
	}
	return IDs{Number(id[0]), int(id[2]) % MaxSockets}, id[0]^id[1] == 0xff
}
