package hostile

import (
	"crypto/rand"
	"errors"

	"sluice/transport"
)

func (p *Peer) garbageRequest() error {
	stream, err := p.Conn.OpenStream()
	if err != nil {
		return err
	}
	_, _ = stream.Write(noise(64 << 10)) // the relay may have stopped it
	return p.expelled()
}

func (p *Peer) garbageStream() error {
	stream, err := p.Conn.OpenUniStream()
	if err != nil {
		return err
	}
	_, _ = stream.Write(noise(64 << 10))
	return p.expelled()
}

func (p *Peer) garbageDatagram() error {
	if err := p.Conn.SendDatagram(noise(500)); err != nil {
		return err
	}
	return p.expelled()
}

// noise returns random bytes that begin with a type that no message, stream or datagram has.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	copy(b, []byte{0x80 | 0x2a, 0xaa}) // a varint of two bytes
	return b
}

// streams opens as many streams as it can, and sends half a varint on each.
func (p *Peer) streams() error {
	return openAll(func() (transport.SendStream, error) { return p.Conn.OpenUniStream() })
}

func (p *Peer) requestStreams() error {
	return openAll(func() (transport.SendStream, error) { return p.Conn.OpenStream() })
}

func openAll(open func() (transport.SendStream, error)) error {
	for range 10_000 {
		stream, err := open()
		if errors.Is(err, transport.ErrStreamLimit) {
			return nil
		}
		if err != nil {
			return err
		}
		_, _ = stream.Write([]byte{0x80}) // the first byte of two
	}
	return errUnlimited
}
