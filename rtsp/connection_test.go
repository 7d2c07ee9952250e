package rtsp

import (
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/base"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"sluice/internal/logs/logstest"
	"sluice/internal/testlimit"
	"sluice/rtsp/rtspwire"
)

// FuzzConnection sends any bytes to a server with a publisher, at once or when it may send packets. Whatever they are,
// the connection ends, the publisher stays, the next client is served, and the server has no panic to recover.
func FuzzConnection(f *testing.F) {
	const url = "rtsp://localhost/live/cam"
	setup := "SETUP " + url + "/trackID=0 RTSP/1.0\r\nCSeq: 2\r\nTransport: "
	sdp := "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\n" +
		"m=video 0 RTP/AVP 96 97\r\na=rtpmap:96 H264/90000\r\na=fmtp:96 packetization-mode=1\r\n" +
		"a=rtpmap:97 AV1/90000\r\na=control:trackID=0\r\n" +
		"m=audio 0 RTP/AVP 98\r\na=rtpmap:98 mpeg4-generic/48000/2\r\n" +
		"a=fmtp:98 profile-level-id=1;mode=AAC-hbr;sizelength=13;indexlength=3;indexdeltalength=3;config=1190\r\n"
	for _, seed := range []string{
		"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n",
		"DESCRIBE " + url + "?nack=1&rendition=best RTSP/1.0\r\nCSeq: 1\r\nAccept: application/sdp\r\n\r\n",
		setup + "RTP/AVP;unicast;client_port=9000-9001\r\n\r\n",
		setup + "RTP/AVP/TCP;unicast;interleaved=0-1\r\n\r\n",
		setup + "RTP/AVP;multicast,RTP/SAVP;unicast;client_port=1-2;mode=record,RTP/AVP;client_port=65535-0\r\n\r\n",
		fmt.Sprintf("ANNOUNCE rtsp://localhost/live/other RTSP/1.0\r\nCSeq: 1\r\nContent-Type: application/sdp\r\n"+
			"Content-Length: %d\r\n\r\n%s", len(sdp), sdp) +
			"SETUP rtsp://localhost/live/other/trackID=0 RTSP/1.0\r\nCSeq: 2\r\n" +
			"Transport: RTP/AVP/TCP;unicast;interleaved=0-1;mode=record\r\n\r\n",
		"$\x00\x00\x0c\x80\x60\x00\x01\x00\x00\x00\x00\x00\x00\x00\x07",
		"PLAY " + url + " RTSP/1.0\r\nCSeq: 1\r\nSession: 1\r\n\r\nTEARDOWN " + url + " RTSP/1.0\r\nCSeq: 2\r\n\r\n",
	} {
		f.Add(false, []byte(seed))
	}
	packet, err := (&rtp.Packet{Header: rtp.Header{Version: 2, PayloadType: 96}, Payload: framePayload(1)}).Marshal()
	require.NoError(f, err)
	report, err := (&rtcp.SenderReport{RTPTime: 1, PacketCount: 1}).Marshal()
	require.NoError(f, err)
	f.Add(true, slices.Concat(rtspwire.Frame(0, packet), rtspwire.Frame(1, report)))
	s := newServer(f, func(c *Config) {
		c.ReadTimeout = time.Hour // the publisher is silent
		c.Logger = logstest.NoErrors()
	})
	publishTo(f, s, "/live/cam", gortsplib.ProtocolTCP)
	elsewhere := net.IPv4(127, 0, 0, 2) // so it cannot take the publisher's place
	connections := 0
	f.Fuzz(func(t *testing.T, publishes bool, b []byte) {
		defer testlimit.Start(t, len(b), 1000)()
		connections++ // the one before may still leave
		path := fmt.Sprint("live/", connections)
		c, err := rtspwire.Dial(t.Context(), elsewhere, s.Addr().String(), path, "", false)
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.SetDeadline(time.Now().Add(patient)))
		if publishes {
			_, err := c.Record(rtspwire.H264, 0)
			require.NoError(t, err)
		}
		_, _ = c.Write(b) // the server may have closed it
		_ = c.TCP().CloseWrite()
		_, err = io.Copy(io.Discard, c)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection does not end")
		res := dialRaw(t, s).ask("DESCRIBE", "rtsp://"+s.Addr().String()+"/live/cam")
		require.Equal(t, base.StatusOK, res.StatusCode)
	})
}
