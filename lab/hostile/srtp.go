package hostile

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/base"
	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/bluenviron/gortsplib/v5/pkg/format"
	"github.com/pion/rtp"
)

// absurdKeys asks for SRTP with keys that nobody has (RFC 4567): some are no MIKEY, of others the lengths lie.
func absurdKeys(c *RTSPClient) {
	for i := range 100 {
		conn := c.dial(c.Victim)
		key := noise(i * i)
		if len(key) > 2 { // as much of a message as the server looks at first: version 1, pre-shared keys
			key[0], key[1], key[2] = 1, 0, byte(rand.IntN(12))
		}
		res, err := conn.Ask("SETUP", conn.Media(0), "", "Transport: RTP/SAVP;unicast;client_port=40000-40001",
			fmt.Sprintf(`KeyMgmt: prot=mikey;uri="%s";data="%s"`, conn.URL(), base64.StdEncoding.EncodeToString(key)))
		cut(conn)
		slow(err)
		if err == nil && res.StatusCode == base.StatusOK {
			undefended("the server takes %d bytes of noise for a key", len(key))
		}
	}
}

// changedPackets publishes by UDP, by SRTP if the client is secure. On their way most packets change: the server cannot
// decrypt these, or finds garbage in them.
func changedPackets(c *RTSPClient) {
	video := &description.Media{
		Type:    description.MediaTypeVideo,
		Formats: []format.Format{&format.H264{PayloadTyp: 96, PacketizationMode: 1}},
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: c.From}}
	pub := &gortsplib.Client{
		TLSConfig: &tls.Config{InsecureSkipVerify: true}, Protocol: new(gortsplib.ProtocolUDP),
		DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
			return dialer.DialContext(c.ctx, network, address)
		},
		ListenPacket: func(network, address string) (net.PacketConn, error) {
			at, err := net.ResolveUDPAddr(network, address)
			if err != nil {
				return nil, err
			}
			conn, err := net.ListenUDP(network, &net.UDPAddr{IP: c.From, Port: at.Port})
			return changing{conn}, err
		},
	}
	defer pub.Close()
	desc := &description.Session{Medias: []*description.Media{video}}
	if pub.StartRecording(c.url(c.own)+"?token="+c.Token, desc) != nil {
		return // a refusal is right
	}
	for i := range uint16(2000) {
		p := new(rtp.Packet)
		must(p.Unmarshal(packet(i, byte(rand.Uint32()))))
		if pub.WritePacketRTP(video, p) != nil {
			return // the server has ended the session
		}
		c.sleep(time.Millisecond)
	}
}

// changing changes most datagrams that are sent: a byte, or their length.
type changing struct{ *net.UDPConn }

func (c changing) WriteTo(b []byte, to net.Addr) (int, error) {
	changed := bytes.Clone(b)
	switch rand.IntN(4) {
	case 0:
		changed = changed[:rand.IntN(len(b))]
	case 1, 2:
		changed[rand.IntN(len(b))] ^= byte(1 + rand.IntN(255))
	}
	_, err := c.UDPConn.WriteTo(changed, to)
	return len(b), err
}
