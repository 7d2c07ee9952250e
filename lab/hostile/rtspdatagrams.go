package hostile

import (
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/rtp"

	"sluice/rtsp/rtspwire"
)

// byUDP is a player by UDP.
type byUDP struct {
	*rtspwire.Conn
	rtp, rtcp     *net.UDPConn
	toRTP, toRTCP *net.UDPAddr // the server's ports
}

func (p *byUDP) end() {
	_ = p.Send("TEARDOWN", p.URL(), "")
	_ = errors.Join(p.rtp.Close(), p.rtcp.Close())
	cut(p.Conn)
}

// flood is how many datagrams are sent at once: more could fill the queues before the server, which is no matter of
// its. Others lose packets there.
const flood = 20

// foreignPackets sends RTP and RTCP to the server's ports, from many ports that no session has named, and from a
// player's, which publishes nothing. It waits for an answer before the next flood: a server without time gets less.
func foreignPackets(c *RTSPClient) {
	p := c.playByUDP()
	defer p.end()
	for range 50 {
		other := got(net.ListenUDP("udp4", &net.UDPAddr{IP: p.rtp.LocalAddr().(*net.UDPAddr).IP}))
		for range flood {
			media, report := packet(uint16(rand.Uint32()), 0x65), noise(rand.IntN(1400))
			if rand.IntN(2) == 0 {
				report, _ = rtcp.Marshal([]rtcp.Packet{ // never fails
					&rtcp.ReceiverReport{SSRC: rand.Uint32(), Reports: []rtcp.ReceptionReport{{FractionLost: 255}}},
					&rtcp.Goodbye{Sources: []uint32{rand.Uint32()}},
				})
			}
			for _, from := range []*net.UDPConn{other, p.rtp, p.rtcp} {
				_, _ = from.WriteTo(media, p.toRTP)
				_, _ = from.WriteTo(report, p.toRTCP)
			}
		}
		_ = other.Close()
		granted(answer(p.Conn))
		c.sleep(5 * time.Millisecond)
	}
}

// Limits of packets that a server may send again to a player.
const (
	maxRepeats  = 2   // of a packet
	repeatRate  = 200 // a second
	repeatBurst = 100
)

// nacks asks for the latest packets of the victim again and again, and counts the packets that come.
func nacks(c *RTSPClient) {
	p := c.playByUDP()
	defer p.end()
	times, repeated, began := make(map[uint16]int), 0, time.Now()
	latest := uint16(0)
	for range 200 {
		must(p.rtp.SetReadDeadline(time.Now().Add(10 * time.Millisecond)))
		for b := make([]byte, 2048); ; {
			n, err := p.rtp.Read(b)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			must(err)
			var received rtp.Packet
			if received.Unmarshal(b[:n]) != nil {
				return
			}
			latest = received.SequenceNumber
			if times[latest]++; times[latest] > 1 {
				repeated++
			}
			if times[latest] > 1+maxRepeats {
				undefended("the server sends a packet %d times", times[latest])
			}
		}
		if most := repeatBurst + repeatRate*time.Since(began).Seconds(); float64(repeated) > most {
			undefended("the server sends %d packets again", repeated)
		}
		p.complain(latest)
	}
}

// complain sends NACKs for the packets before one.
func (p *byUDP) complain(latest uint16) {
	lost := &rtcp.TransportLayerNack{SenderSSRC: rand.Uint32(), MediaSSRC: rand.Uint32()}
	for i := range uint16(10) {
		lost.Nacks = append(lost.Nacks, rtcp.NackPair{PacketID: latest - 17*i, LostPackets: 0xffff})
	}
	b := got(lost.Marshal())
	for range flood {
		_, _ = p.rtcp.WriteTo(b, p.toRTCP)
	}
}
