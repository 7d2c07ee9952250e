package hostile

import (
	"crypto/rand"
	"errors"
	"time"

	"sluice/moqt"
	"sluice/transport"
)

func garbageRequest(p *Peer) {
	_, _ = got(p.Conn.OpenStream()).Write(noise(64 << 10)) // the relay may have stopped it
	p.expelled()
}

func garbageStream(p *Peer) {
	_, _ = got(p.Conn.OpenUniStream()).Write(noise(64 << 10))
	p.expelled()
}

func garbageDatagram(p *Peer) {
	must(p.Conn.SendDatagram(noise(500)))
	p.expelled()
}

// noise returns random bytes that begin with a type that no message, stream or datagram has.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	copy(b, []byte{0x80 | 0x2a, 0xaa}) // a varint of two bytes
	return b
}

// streams opens as many streams as it can, and sends half a varint on each.
func streams(p *Peer) {
	openAll(func() (transport.SendStream, error) { return p.Conn.OpenUniStream() })
}

func requestStreams(p *Peer) {
	openAll(func() (transport.SendStream, error) { return p.Conn.OpenStream() })
}

func openAll(open func() (transport.SendStream, error)) {
	for range 20_000 { // a relay that has dialed this one takes 16,384
		stream, err := open()
		if errors.Is(err, transport.ErrStreamLimit) {
			return
		}
		must(err)
		_, _ = stream.Write([]byte{0x80}) // the first byte of two
	}
	unlimited()
}

// unknownAliases opens streams of tracks that no message has named. They wait, and are stopped.
func unknownAliases(p *Peer) {
	var first transport.SendStream
	for alias := range uint64(6_000) {
		stream, err := p.Conn.OpenUniStream()
		if err != nil {
			return // the relay has ended the session, or takes no more streams
		}
		h := moqt.SubgroupHeader{TrackAlias: 1<<40 + alias, FirstObject: true}
		_, _ = stream.Write(append(moqt.AppendSubgroupHeader(nil, p.Version(), h), noise(1<<10)...))
		if first == nil {
			first = stream
		}
	}
	select {
	case <-first.Context().Done():
	case <-time.After(patience):
		undefended("streams of unknown tracks wait for ever")
	}
}
