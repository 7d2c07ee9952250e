package load

import (
	"bytes"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/base"
	"github.com/pion/rtp"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	"sluice/lab/bench/video"
)

// patience is how long a client waits for an answer. It is also how long it has a session without packets, as the
// library sees none.
const patience = time.Hour

// playInto starts a session that plays, whose RTP packets go to a reader.
func playInto(to *frameReader, address string) (*gortsplib.Client, error) {
	u, err := base.ParseURL(address)
	if err != nil {
		return nil, err
	}
	c := &gortsplib.Client{
		Scheme: u.Scheme, Host: u.Host, Protocol: new(gortsplib.ProtocolUDP), ReadTimeout: patience,
		ListenPacket: to.listen,
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	desc, _, err := c.Describe(u)
	if err == nil {
		err = c.SetupAll(desc.BaseURL, desc.Medias)
	}
	if err == nil {
		_, err = c.Play(nil)
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("play %s: %w", address, err)
	}
	return c, nil
}

// listen opens a socket of a client: RTP's has an even port, and its packets are read here.
func (r *frameReader) listen(network, address string) (net.PacketConn, error) {
	conn, err := net.ListenPacket(network, address)
	if err != nil {
		return nil, err
	}
	udp := conn.(*net.UDPConn)
	if udp.LocalAddr().(*net.UDPAddr).Port%2 != 0 {
		return udp, nil // RTCP
	}
	growReadBuffer(udp, readBufferSize)
	return &mediaConn{UDPConn: udp, to: r}, nil
}

// growReadBuffer gives a socket room for seconds of video, so that a load generator that has to wait for a processor
// loses nothing. Only root may exceed the limit of the system.
func growReadBuffer(c *net.UDPConn, bytes int) {
	raw, err := c.SyscallConn()
	if err != nil {
		return // it is closed
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bytes) // else it stays as it is
	})
}

// mediaConn is the socket of a client for RTP. The client, which would handle each packet by itself, sees none.
type mediaConn struct {
	*net.UDPConn
	to *frameReader
}

const (
	// batchSize is how many packets are read at once.
	batchSize      = 16
	maxPacket      = 2048
	readBufferSize = 4 << 20 // of the socket: 5 s of 2 Mbit/s, with the kernel's overhead
)

// ReadFrom reads packets until there is an error. It implements [net.PacketConn].
func (c *mediaConn) ReadFrom([]byte) (int, net.Addr, error) {
	messages := make([]ipv6.Message, batchSize)
	for i := range messages {
		messages[i].Buffers = [][]byte{make([]byte, maxPacket)}
	}
	batches := ipv6.NewPacketConn(c.UDPConn)
	for {
		n, err := batches.ReadBatch(messages, 0)
		if err != nil {
			return 0, nil, err
		}
		for _, m := range messages[:n] {
			c.to.read(m.Buffers[0][:m.N])
		}
	}
}

// frameReader puts the packets of a session in order and finds the frames in them. It digests them without a copy.
type frameReader struct {
	receiver *receiver

	mu     sync.Mutex // guards all below
	began  bool
	last   uint16            // the largest sequence number that has come
	next   uint16            // follows the packets in order
	early  map[uint16][]byte // packets that have come before others, by sequence number
	header rtp.Header
	digest video.Digest
	broken bool // a packet of the current frame is missing, or no frame has begun

	placed bool   // a frame has come
	origin uint32 // the timestamp that the publisher's first frame has, or had, in this session
}

func newFrameReader(to *receiver) *frameReader {
	r := &frameReader{receiver: to, early: make(map[uint16][]byte), broken: true}
	to.settle = r.settle
	return r
}

const (
	nalType = 0x1f
	// nalFragment is the type of a packet with a part of a NAL unit (FU-A, RFC 6184 §5.8). Two bytes precede that part.
	// The second has a bit for the first part. A NAL unit in one packet has one byte before its payload.
	nalFragment = 28
	nalFirst    = 0x80
)

// patientPackets is how many packets may come before one that precedes them, until that counts as lost.
const patientPackets = 64

// read takes a packet.
func (r *frameReader) read(packet []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, err := r.header.Unmarshal(packet)
	if err != nil || r.header.Version != 2 || n+2 > len(packet) {
		return
	}
	number := r.header.SequenceNumber
	if !r.began {
		r.began, r.next, r.last = true, number, number
	}
	r.receiver.countPacket(before(number, r.last))
	if !before(number, r.last) {
		r.last = number
	}
	switch {
	case before(number, r.next):
		return // it has come, or was given up
	case number != r.next:
		r.early[number] = bytes.Clone(packet)
		if len(r.early) > patientPackets {
			r.skip()
		}
	default:
		r.take(packet)
	}
	r.takeEarly()
}

// before reports whether a sequence number precedes another one.
func before(a, b uint16) bool { return a-b >= 1<<15 }

// settle gives up the packets that have not come.
func (r *frameReader) settle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.early) > 0 {
		r.skip()
		r.takeEarly()
	}
}

// takeEarly takes those packets that have come before and follow now.
func (r *frameReader) takeEarly() {
	for {
		packet, ok := r.early[r.next]
		if !ok {
			return
		}
		delete(r.early, r.next)
		r.take(packet)
	}
}

// skip goes on with the first packet that has come.
func (r *frameReader) skip() {
	r.broken = true
	for r.early[r.next] == nil {
		r.next++
	}
}

// take takes the packet that follows. It has a header and at least two bytes.
func (r *frameReader) take(packet []byte) {
	n, _ := r.header.Unmarshal(packet)
	r.next++
	first, payload := true, packet[n+1:]
	if packet[n]&nalType == nalFragment {
		first, payload = payload[0]&nalFirst != 0, payload[1:]
	}
	if first {
		r.digest, r.broken = video.Digest{}, false
	}
	r.digest.Write(payload)
	if r.header.Marker && !r.broken {
		r.frame()
	}
}

// frame takes a whole frame. All timestamps of a session differ from the publisher's by the same number.
func (r *frameReader) frame() {
	f := r.receiver.source.Frame(r.digest.Sequence())
	origin := r.header.Timestamp - timestamp(f)
	if !r.placed {
		r.placed, r.origin = true, origin
	}
	if origin != r.origin {
		r.receiver.reject()
		return
	}
	r.receiver.take(object{Location: f.Location, digest: r.digest})
}
