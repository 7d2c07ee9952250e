package hostile

import (
	"time"

	"sluice/moqt"
	"sluice/transport"
)

func tinyObjects(p *Peer) {
	_ = p.manyObjects(200_000, 1) // the relay has stopped the stream, for example
	p.checkCache()
}

func tinyGroups(p *Peer) {
	s := p.publish(p.own)
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
	p.checkCache()
}

// waitingStreams sends little on one stream of a subgroup, and sends the same subgroup on others, which have to wait.
func waitingStreams(p *Peer) {
	s, h := p.publish(p.own), moqt.SubgroupHeader{FirstObject: true}
	send := func(b []byte) transport.SendStream {
		stream := got(s.OpenSubgroup(p.Context(), h))
		_, _ = stream.Write(b) // the relay may have stopped the stream
		return stream
	}
	encoder := moqt.NewSubgroupEncoder(moqt.DataLayout1, h)
	b := append(got(encoder.AppendObject(nil, moqt.ObjectHeader{PayloadLength: 1 << 20})), make([]byte, 1<<20)...)
	active := send(b[:100])
	for i := range 100 {
		_ = send(b).Close()
		_, _ = active.Write(b[100+i : 101+i]) // it does not seem to stall
		if p.Cache == nil {
			continue
		}
		if held := p.Cache.Bytes(); held > 64<<20 { // 32 MiB may wait, and 16 arrive
			undefended("the cache has %d bytes for streams that wait", held)
		}
	}
	active.CancelWrite(0)
}

// sparseObjects sends objects with every second id on one stream.
func sparseObjects(p *Peer) {
	must(p.manyObjects(100_000, 2))
	if p.Cache == nil {
		return
	}
	for deadline := time.Now().Add(patience); p.Cache.Trims() == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			undefended("ids without a limit")
		}
	}
	must(p.Context().Err()) // gaps are allowed
	p.checkCache()
}
