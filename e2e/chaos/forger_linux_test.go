package chaos

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"golang.org/x/sys/unix"

	"sluice/lab"
)

// forger sits on the path between a host and the relays, right before the relays. Behind the host's packets it sends
// others: the same ones again, and changed ones.
type forger struct {
	random *rand.Rand
	source net.HardwareAddr // of the host
	socket int              // at the port to the relays
	intact bool             // it leaves payloads as they are: RTP does not protect them
	behind sync.WaitGroup   // packets that are still to be sent
}

// lag is how far behind the host's packet the forger sends it from another port. It must not be faster than the host,
// against which QUIC has no defence (RFC 9000 §9.3.3): packets that come before the host's make the relay look at other
// paths, of which quic-go remembers three for 5 s each, and a path that the host changes to meanwhile is not looked at.
// A packet that the forger sends at once may overtake the host's on another processor, as the kernel's programs open
// and copy that.
const lag = 50 * time.Millisecond

// burst is how often the forger sends some packets, as fast as it can. RTP has no defence: its receivers take many old
// packets in a row for a new beginning.
const burst = 50

func newForger(l *lab.Lab, host *lab.Host, port string, seed uint64) (*forger, error) {
	network, err := l.Host(lab.NetworkName)
	if err != nil {
		return nil, err
	}
	f := &forger{random: rand.New(rand.NewPCG(seed, 0)), source: host.Devices[0].HardwareAddr()}
	f.socket, err = packetSocket(network, port)
	return f, err
}

func (f *forger) close() {
	f.behind.Wait()
	_ = unix.Close(f.socket)
}

// packetSocket opens a socket for the frames of a device.
func packetSocket(h *lab.Host, device string) (fd int, err error) {
	all := int(binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL}))
	err = h.Do(func() error {
		d, err := net.InterfaceByName(device)
		if err != nil {
			return err
		}
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all); err != nil {
			return err
		}
		timeout := unix.NsecToTimeval(int64(50 * time.Millisecond))
		err = errors.Join(
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: uint16(all), Ifindex: d.Index}),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout))
		if err != nil {
			return errors.Join(err, unix.Close(fd))
		}
		return nil
	})
	if err != nil {
		return -1, fmt.Errorf("listen at %s: %w", device, err)
	}
	return fd, nil
}

// run forges packets until ctx ends. The socket does not get what it has sent itself.
func (f *forger) run(ctx context.Context) {
	for buf := make([]byte, 2048); ctx.Err() == nil; {
		n, _, err := unix.Recvfrom(f.socket, buf, 0)
		if err != nil { // no packet in time
			continue
		}
		switch frame, later := f.forge(buf[:n]); {
		case frame == nil:
		case later:
			f.behind.Add(1)
			time.AfterFunc(lag, func() {
				defer f.behind.Done()
				f.send(frame)
			})
		case !f.intact && f.random.IntN(10) == 0:
			for range burst {
				f.send(frame)
			}
		default:
			f.send(frame)
		}
	}
}

func (f *forger) send(frame []byte) { _, _ = unix.Write(f.socket, frame) } // a packet that cannot be sent is lost

// forge returns a packet to send behind one of the host, or nil, and whether it must wait.
func (f *forger) forge(frame []byte) (forged []byte, later bool) {
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.NoCopy)
	eth, _ := p.LinkLayer().(*layers.Ethernet)
	udp, _ := p.TransportLayer().(*layers.UDP)
	ip, _ := p.NetworkLayer().(gopacket.SerializableLayer)
	if eth == nil || udp == nil || ip == nil || len(udp.Payload) == 0 || !bytes.Equal(eth.SrcMAC, f.source) {
		return nil, false
	}
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	payload := append([]byte(nil), udp.Payload...)
	kind := f.random.IntN(10)
	if f.intact && kind >= 2 && kind <= 5 {
		return nil, false
	}
	switch kind {
	case 0, 1: // again
	case 2, 3: // another byte somewhere
		payload[f.random.IntN(len(payload))] ^= byte(1 + f.random.IntN(255))
	case 4: // cut
		payload = payload[:1+f.random.IntN(len(payload))]
	case 5: // noise for the same connection
		for i := min(len(payload), 9); i < len(payload); i++ {
			payload[i] = byte(f.random.Uint32())
		}
	case 6: // from another port
		later = true
		udp.SrcPort = layers.UDPPort(1024 + f.random.IntN(60_000))
	case 7: // a checksum that is wrong
		options.ComputeChecksums = false
		udp.Checksum = uint16(1 + f.random.IntN(0xffff))
	default:
		return nil, false
	}
	switch ip := ip.(type) {
	case *layers.IPv4:
		_ = udp.SetNetworkLayerForChecksum(ip)
	case *layers.IPv6:
		_ = udp.SetNetworkLayerForChecksum(ip)
	}
	out := gopacket.NewSerializeBuffer()
	if gopacket.SerializeLayers(out, options, eth, ip, udp, gopacket.Payload(payload)) != nil {
		return nil, false
	}
	return out.Bytes(), later
}
