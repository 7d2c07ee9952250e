package media

import (
	"errors"
	"net"
)

// Loop sends the packets of many senders on one UDP socket, in batches, with few goroutines.
type Loop struct{}

// NewLoop starts a loop that sends on a socket, which quic-go reads from. It does not close the socket.
func NewLoop(pc net.PacketConn, cfg Config) (*Loop, error) { return nil, errors.ErrUnsupported }

// NewSender makes the hooks of one connection.
func (l *Loop) NewSender(cfg SenderConfig) *Sender { return &Sender{} }

// Close stops sending and ends all streams.
func (l *Loop) Close() error { return nil }
