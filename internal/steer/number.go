package steer

import (
	"crypto/rand"

	"github.com/quic-go/quic-go"
)

// Number is the number of a process, among those that share a port.
type Number uint8

// Process is a process that shares the port, and still has sessions while it drains.
type Process struct{ PID, Sessions int }

var _ quic.ConnectionIDGenerator = Number(0)

// GenerateConnectionID implements [quic.ConnectionIDGenerator]. The connection ID names the process; 6 bytes of it are
// random.
func (n Number) GenerateConnectionID() (quic.ConnectionID, error) {
	id := [ConnectionIDLen]byte{byte(n), ^byte(n)}
	_, _ = rand.Read(id[2:]) // never fails
	return quic.ConnectionIDFromBytes(id[:]), nil
}

// ConnectionIDLen implements [quic.ConnectionIDGenerator].
func (Number) ConnectionIDLen() int { return ConnectionIDLen }
