package hostile

import (
	"time"

	"sluice/moqt"
	"sluice/transport"
)

func tinyObjects(p *Peer) error {
	stream, encoder, err := p.subgroup()
	if err != nil {
		return err
	}
	var b []byte
	for id := range uint64(200_000) {
		b, _ = encoder.AppendObject(b, moqt.ObjectHeader{ObjectID: id, PayloadLength: 1})
		if b = append(b, 'x'); len(b) > 16<<10 {
			if _, err := stream.Write(b); err != nil {
				break // the relay has stopped the stream, for example
			}
			b = b[:0]
		}
	}
	return p.checkCache()
}

func tinyGroups(p *Peer) error {
	s, err := p.publish(p.own)
	if err != nil {
		return err
	}
	for group := range uint64(5_000) {
		h := moqt.SubgroupHeader{GroupID: group, FirstObject: true}
		stream, err := s.OpenSubgroup(p.Context(), h)
		if err != nil {
			break
		}
		encoder := moqt.NewSubgroupEncoder(moqt.DataLayout1, h)
		b, _ := encoder.AppendObject(nil, moqt.ObjectHeader{PayloadLength: 1})
		_, _ = stream.Write(append(b, 'x'))
		_ = stream.Close()
	}
	return p.checkCache()
}

// waitingStreams sends little on one stream of a subgroup, and sends the same subgroup on others, which have to wait.
func waitingStreams(p *Peer) error {
	s, err := p.publish(p.own)
	if err != nil {
		return err
	}
	h := moqt.SubgroupHeader{FirstObject: true}
	send := func(b []byte) (transport.SendStream, error) {
		stream, err := s.OpenSubgroup(p.Context(), h)
		if err == nil {
			_, _ = stream.Write(b) // the relay may have stopped the stream
		}
		return stream, err
	}
	encoder := moqt.NewSubgroupEncoder(moqt.DataLayout1, h)
	b, err := encoder.AppendObject(nil, moqt.ObjectHeader{PayloadLength: 1 << 20})
	if err != nil {
		return err
	}
	b = append(b, make([]byte, 1<<20)...)
	active, err := send(b[:100])
	if err != nil {
		return err
	}
	for i := range 100 {
		stream, err := send(b)
		if err != nil {
			return err
		}
		_ = stream.Close()
		_, _ = active.Write(b[100+i : 101+i]) // it does not seem to stall
		if p.Cache == nil {
			continue
		}
		if held := p.Cache.Bytes(); held > 64<<20 { // 32 MiB may wait, and 16 arrive
			return undefended("the cache has %d bytes for streams that wait", held)
		}
	}
	active.CancelWrite(0)
	return nil
}

// sparseObjects sends objects with every second id on one stream.
func sparseObjects(p *Peer) error {
	stream, encoder, err := p.subgroup()
	if err != nil {
		return err
	}
	var b []byte
	for id := range uint64(100_000) {
		b, _ = encoder.AppendObject(b, moqt.ObjectHeader{ObjectID: 2 * id, PayloadLength: 1})
		if b = append(b, 'x'); len(b) > 16<<10 {
			if _, err := stream.Write(b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	if p.Cache == nil {
		return nil
	}
	for deadline := time.Now().Add(patience); p.Cache.Trims() == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return undefended("ids without a limit")
		}
	}
	if err := p.Context().Err(); err != nil {
		return err // gaps are allowed
	}
	return p.checkCache()
}
