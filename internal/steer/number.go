package steer

import (
	"crypto/rand"

	"github.com/quic-go/quic-go"
)

// Number is the number of a process, among those that share a port.
type Number uint8

// Process is a process that shares the port, and still has sessions while it drains.
type Process struct{ PID, Sessions int }

// Arrivals counts the datagrams of a socket, by the CPU on which they came.
type Arrivals struct {
	SameCPU  uint64 // on that where the reader had woken last
	OtherCPU uint64
}

// IDs makes the connection IDs of a socket: they name the process and the number of the socket.
type IDs struct {
	Process Number
	Socket  int // less than MaxSockets
}

var _ quic.ConnectionIDGenerator = IDs{}

// GenerateConnectionID implements [quic.ConnectionIDGenerator]. All but what names the socket is random.
func (n IDs) GenerateConnectionID() (quic.ConnectionID, error) {
	id := [ConnectionIDLen]byte{byte(n.Process), ^byte(n.Process)}
	_, _ = rand.Read(id[2:]) // never fails
	id[2] = id[2]&^(MaxSockets-1) | byte(n.Socket)
	return quic.ConnectionIDFromBytes(id[:]), nil
}

// ConnectionIDLen implements [quic.ConnectionIDGenerator].
func (IDs) ConnectionIDLen() int { return ConnectionIDLen }
