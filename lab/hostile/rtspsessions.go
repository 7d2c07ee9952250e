package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/bluenviron/gortsplib/v5/pkg/base"
	"github.com/pion/rtp"

	"sluice/rtsp/rtspwire"
)

// sessions begins and ends sessions of players and publishers, with and without TEARDOWN. The ports are the same each
// time that it runs, so that the sessions that are left limit how many more there are.
func sessions(c *RTSPClient) {
	for i := range 100 {
		pub := c.ownBroadcast(i % 3)
		_, err := pub.Record(rtspwire.H264, 10_000+2*i)
		granted(err)
		sub := c.dial(c.Victim)
		for range 3 {
			play(sub)
			granted(sub.Teardown())
		}
		if i%2 == 0 {
			_ = pub.Teardown()
		}
		cut(pub)
		cut(sub)
	}
}

// play begins to play on a connection.
func play(conn *rtspwire.Conn) {
	_, err := conn.Play(0)
	granted(err)
}

// record begins to publish on a connection.
func record(conn *rtspwire.Conn) {
	_, err := conn.Record(rtspwire.H264, 0)
	granted(err)
}

// abandonedSessions begins sessions by UDP, and closes their connections: the server has to find out that nobody is
// there.
func abandonedSessions(c *RTSPClient) {
	for i := range 100 {
		sub := c.dial(c.Victim)
		_, err := sub.Play(20_000 + 2*i)
		cut(sub)
		granted(err)
		pub := c.ownBroadcast(i)
		_, err = pub.Record(rtspwire.H264, 30_000+2*i)
		cut(pub)
		granted(err)
	}
}

// teardowns ends sessions while packets are on their way, in both directions: within a packet, and within a request.
func teardowns(c *RTSPClient) {
	for i := range 50 {
		sub := c.dial(c.Victim)
		play(sub)
		pub := c.ownBroadcast(i)
		record(pub)
		frame := rtspwire.Frame(0, packet(uint16(i), 0x65))
		_, _ = pub.Write(frame)
		_, _ = pub.Write(frame[:10])
		_ = pub.Send("TEARDOWN", pub.URL(), "") // within the packet
		_, _ = sub.Write([]byte("PAUSE " + sub.URL() + " RTSP/1.0\r\nCS"))
		cut(pub)
		cut(sub)
		again := c.dial(c.Victim)
		play(again)
		_ = again.Send("PAUSE", again.URL(), "")
		_ = again.Send("TEARDOWN", again.URL(), "")
		_ = again.Send("PLAY", again.URL(), "") // of a session that has ended
		cut(again)
	}
}

// packet is one of RTP, with a slice of a picture.
func packet(number uint16, slice byte) []byte {
	return packetOf(int(number), int(number), true, []byte{slice, 0x80, byte(number >> 8), byte(number)})
}

// packetOf is one of RTP, of a picture.
func packetOf(number, picture int, last bool, payload []byte) []byte {
	return got((&rtp.Packet{
		Header: rtp.Header{
			Version: 2, Marker: last, PayloadType: 96, SequenceNumber: uint16(number),
			Timestamp: 3600 * uint32(picture), SSRC: 7,
		},
		Payload: payload,
	}).Marshal())
}

// absurd are descriptions that no camera has.
func absurd() []string {
	const begin = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nt=0 0\r\n"
	media := func(typ int, lines ...string) string {
		return fmt.Sprintf("m=video 0 RTP/AVP %d\r\n%s\r\na=control:trackID=0\r\n", typ, strings.Join(lines, "\r\n"))
	}
	long := strings.Repeat("A", 100_000)
	all := []string{
		"", "v=0\r\nm=video\r\n", long, begin + strings.Repeat("a=x\r\n", 20_000),
		begin + strings.Repeat(media(96, "a=rtpmap:96 H264/90000", "a=fmtp:96 packetization-mode=1"), 1000),
		begin + "m=video 0 RTP/AVP" + strings.Repeat(" 96", 5000) + "\r\na=rtpmap:96 H264/90000\r\n",
		begin + "m=video 0 RTP/SAVP 96\r\na=key-mgmt:mikey AAAA\r\na=rtpmap:96 H264/90000\r\n",
		strings.Replace(rtspwire.H264, "trackID=0", "rtsp://elsewhere/x/trackID=0", 1),
		strings.Replace(rtspwire.H264, "trackID=0", "../../"+long[:1000], 1),
	}
	for _, format := range []string{
		"H264/0", "H264/4294967295", "H264/-1", "H265/90000", "AV1/90000", "VP9/1", "JPEG/90000", "opus/48000/255",
		"mpeg4-generic/0/0", "mpeg4-generic/96000/8", "L16/1/65535", "unheard-of/1",
	} {
		for _, parameters := range []string{
			"packetization-mode=1;sprop-parameter-sets=Z0I=,aM4=,!!!!",
			"packetization-mode=255;sprop-vps=AA==;sprop-sps=;",
			"sizelength=255;indexlength=255;indexdeltalength=255;config=ffffffff", "config=" + long[:2000],
			"profile-id=99999999999;tier=-1", strings.Repeat(";", 2000), "=;=;=",
		} {
			all = append(all, begin+media(96, "a=rtpmap:96 "+format, "a=fmtp:96 "+parameters))
		}
	}
	return all
}

// hugeSets are parameter sets of H.264 and H.265 that claim very much.
var hugeSets = []struct {
	codec, parameters string
	sets              [][]byte // as packets have them
}{
	{"H264", "packetization-mode=1;sprop-parameter-sets=Z2QQHoBBHNVAAAAAH////////w==,aM4=", [][]byte{
		[]byte("\x67\x64\x10\x1e\x80\x41\x1c\xd5\x40\x00\x00\x00\x1f\xff\xff\xff\xff\xff\xff\xff"),
		{0x68, 0xce}, {0x65, 0x88, 0x80},
	}},
	{"H265", "", [][]byte{
		{0x40, 1, 0xff}, append([]byte{0x42, 1, 0x0f}, bytes.Repeat([]byte{0xff}, 200)...), {0x44, 1, 0xff},
		{0x26, 1, 0xaf, 0x10},
	}},
}

// parameterSets announces parameter sets that claim very much, and sends them in packets.
func parameterSets(c *RTSPClient) {
	for i, h := range hugeSets {
		conn := c.ownBroadcast(i)
		_, err := conn.Record("v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\n"+
			"m=video 0 RTP/AVP 96\r\na=rtpmap:96 "+h.codec+"/90000\r\na=fmtp:96 "+h.parameters+"\r\n"+
			"a=control:trackID=0\r\n", 0)
		slow(err)
		for n := 0; err == nil && n < 10*len(h.sets); n++ {
			set := n % len(h.sets)
			_, err = conn.Write(rtspwire.Frame(0, packetOf(n, n/len(h.sets), set == len(h.sets)-1, h.sets[set])))
		}
		if err == nil {
			err = answer(conn)
		}
		cut(conn)
		slow(err)
	}
}

// maxMedias is how many medias a server may take of a publisher.
const maxMedias = 16

// descriptions announces all absurd descriptions, and sends packets where that is granted. A refusal is right.
func descriptions(c *RTSPClient) {
	all := absurd()
	first := rand.IntN(len(all))
	for n := range all {
		sdp := all[(first+n)%len(all)]
		conn := c.ownBroadcast(n)
		_, err := conn.Record(sdp, 0)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			slow(err)
		}
		if err == nil && strings.Count(sdp, "m=") > maxMedias {
			undefended("the server takes %d medias", strings.Count(sdp, "m="))
		}
		for i := uint16(0); err == nil && i < 50; i++ {
			_, err = conn.Write(rtspwire.Frame(0, packet(i, byte(rand.Uint32()))))
		}
		_ = conn.Send("TEARDOWN", conn.URL(), "")
		cut(conn)
	}
}

// garbagePackets publishes and plays on a connection, and sends packets of all lengths on all channels.
func garbagePackets(c *RTSPClient) {
	pub := c.ownBroadcast(0)
	defer cut(pub)
	record(pub)
	sub := c.dial(c.Victim)
	defer cut(sub)
	play(sub)
	go func() { // it reads, so that the server does not end it for that
		for err := error(nil); err == nil; {
			_, _, err = sub.Next()
		}
	}()
	for i := range 1000 {
		b := noise(rand.IntN(1 << rand.IntN(17)))
		if i%2 == 0 { // as much of a packet as the server looks at first
			copy(b, packet(uint16(rand.Uint32()), byte(rand.Uint32())))
		}
		for _, conn := range []*rtspwire.Conn{pub, sub} {
			channel := byte(rand.Uint32())
			if i%4 < 3 {
				channel %= 2
			}
			_, err := conn.Write(rtspwire.Frame(channel, b))
			granted(err)
		}
		c.sleep(time.Millisecond)
	}
	res, err := pub.Ask("OPTIONS", "*", "")
	if slow(err); err == nil && res.StatusCode != base.StatusOK {
		must(fmt.Errorf("OPTIONS: %d", res.StatusCode))
	}
}

// unreadPackets has players on connections that read nothing, of both kinds of broadcasts.
func unreadPackets(c *RTSPClient) {
	for i := range 40 {
		path := c.Victim
		if i%2 == 0 && c.MoQ != "" {
			path = c.MoQ
		}
		conn := c.dial(path)
		defer cut(conn)
		_ = conn.TCP().SetReadBuffer(4 << 10) // it is then full sooner
		play(conn)
	}
	c.sleep(patience)
}
