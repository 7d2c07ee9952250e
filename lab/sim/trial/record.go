package trial

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlogwriter"

	"sluice/lab/sim"
	"sluice/server/qlogs"
)

// Record is what a service has sent and said.
type Record struct {
	Packets []sim.Packet
	Keys    bytes.Buffer // the secrets of TLS, in the format of SSLKEYLOGFILE

	mu    sync.Mutex
	qlogs []*qlog
}

// Hash returns a hash of all packets: when each was sent, when it arrives, from where, to where, and its bytes. Runs
// with equal hashes were the same run.
func (r *Record) Hash() string {
	h := sha256.New()
	for _, p := range r.Packets {
		b := binary.BigEndian.AppendUint64(nil, uint64(p.At.UnixNano()))
		b = append(b, byte(len(p.Arrivals)))
		for _, at := range p.Arrivals {
			b = binary.BigEndian.AppendUint64(b, uint64(at.UnixNano()))
		}
		b = fmt.Appendf(b, "%v %v %d ", p.From, p.To, len(p.Data))
		h.Write(append(b, p.Data...))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// WritePcap writes the packets as Ethernet frames, at the times at which they were sent. Lost ones are among them.
func (r *Record) WritePcap(file io.Writer) error {
	const longest = 1 << 18 // as libpcap writes
	w := pcapgo.NewWriterNanos(file)
	if err := w.WriteFileHeader(longest, layers.LinkTypeEthernet); err != nil {
		return err
	}
	for _, p := range r.Packets {
		frame, err := frame(&p)
		if err == nil {
			about := gopacket.CaptureInfo{Timestamp: p.At, CaptureLength: len(frame), Length: len(frame)}
			err = w.WritePacket(about, frame)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// trace begins the qlog of a connection.
func (r *Record) trace(_ context.Context, isClient bool, id quic.ConnectionID) qlogwriter.Trace {
	end := "server"
	if isClient {
		end = "client"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	q := &qlog{name: fmt.Sprintf("%02d-%v-%s.sqlog", len(r.qlogs)+1, id, end), lines: qlogs.NewLines(isClient, id)}
	r.qlogs = append(r.qlogs, q)
	return q
}

// WriteQlogs writes a file for each end of each connection.
func (r *Record) WriteQlogs(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, q := range r.qlogs {
		text := slices.Concat(q.lines.Header, q.lines.Text.Bytes())
		if err := os.WriteFile(filepath.Join(dir, q.name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// frame returns the packet as an Ethernet frame.
func frame(p *sim.Packet) ([]byte, error) {
	mac := func(a netip.Addr) []byte { b := a.As4(); return append([]byte{2, 0}, b[:]...) }
	ip := &layers.IPv4{
		Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP,
		SrcIP: p.From.Addr().AsSlice(), DstIP: p.To.Addr().AsSlice(),
	}
	from, to := p.From.Port(), p.To.Port()
	var above interface {
		gopacket.SerializableLayer
		SetNetworkLayerForChecksum(gopacket.NetworkLayer) error
	} = &layers.UDP{SrcPort: layers.UDPPort(from), DstPort: layers.UDPPort(to)}
	if p.Stream {
		ip.Protocol = layers.IPProtocolTCP
		above = &layers.TCP{
			SrcPort: layers.TCPPort(from), DstPort: layers.TCPPort(to), Seq: p.Sequence, PSH: len(p.Data) > 0,
		}
	}
	b := gopacket.NewSerializeBuffer()
	err := errors.Join(above.SetNetworkLayerForChecksum(ip),
		gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
			&layers.Ethernet{
				SrcMAC: mac(p.From.Addr()), DstMAC: mac(p.To.Addr()), EthernetType: layers.EthernetTypeIPv4,
			}, ip, above, gopacket.Payload(p.Data)))
	return b.Bytes(), err
}

// qlog is the qlog of one end of a connection. Unlike a relay's, it has no goroutine and no file, so that it does not
// change the order of goroutines.
type qlog struct {
	name string

	mu    sync.Mutex
	lines *qlogs.Lines
}

// AddProducer implements [qlogwriter.Trace].
func (q *qlog) AddProducer() qlogwriter.Recorder { return q }

// Close implements [qlogwriter.Recorder].
func (q *qlog) Close() error { return nil }

// RecordEvent implements [qlogwriter.Recorder].
func (q *qlog) RecordEvent(e qlogwriter.Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lines.Add(e)
}
