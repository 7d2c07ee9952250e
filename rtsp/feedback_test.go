package rtsp

import (
	"testing"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/stretchr/testify/require"
)

// TestOfferNACK asks for a description that offers NACK. It differs in that only, and a client plays the broadcast by
// it.
func TestOfferNACK(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	pub := publishTo(t, s, "/live/cam", gortsplib.ProtocolTCP)
	bodyOf := func(path string) string {
		u := s.url(t, path)
		c := &gortsplib.Client{Scheme: u.Scheme, Host: u.Host}
		require.NoError(t, c.Start())
		defer c.Close()
		_, res, err := c.Describe(u)
		require.NoError(t, err)
		return string(res.Body)
	}
	const plain = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns= \r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\n" +
		"m=video 0 RTP/AVP 96\r\na=control:trackID=0\r\na=rtpmap:96 H264/90000\r\na=fmtp:96 packetization-mode=1\r\n" +
		"m=audio 0 RTP/AVP 97\r\na=control:trackID=1\r\na=rtpmap:97 opus/48000/2\r\na=fmtp:97 sprop-stereo=1\r\n"
	const offer = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns= \r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\n" +
		"m=video 0 RTP/AVPF 96\r\na=control:trackID=0\r\na=rtpmap:96 H264/90000\r\na=fmtp:96 packetization-mode=1\r\n" +
		"a=rtcp-fb:* nack\r\n" +
		"m=audio 0 RTP/AVPF 97\r\na=control:trackID=1\r\na=rtpmap:97 opus/48000/2\r\na=fmtp:97 sprop-stereo=1\r\n" +
		"a=rtcp-fb:* nack\r\n"
	require.Equal(t, plain, bodyOf("/live/cam"))
	require.Equal(t, offer, bodyOf("/live/cam?nack=1"))

	sub := play(t, s, "/live/cam?nack=1", gortsplib.ProtocolUDP)
	pub.frames(10)
	sub.expects(1, 10)
	require.Len(t, sub.got(description.MediaTypeVideo), 10)
}
