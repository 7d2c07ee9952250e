package rtsp

import (
	"bytes"
	"net/url"
)

// wantsNACK reports whether a query asks for a description that offers NACK (?nack=1). Such a description has another
// profile. GStreamer asks for it in SETUP, and the library refuses. So it is not the default.
func wantsNACK(query string) bool {
	values, _ := url.ParseQuery(query) // the readable part
	return values.Get("nack") == "1"
}

// offerNACK adds NACK to each media of a description.
func offerNACK(sdp []byte) []byte {
	var out []byte
	inMedia := false
	end := func() {
		if inMedia {
			out = append(out, "a=rtcp-fb:* nack\r\n"...)
		}
	}
	for line := range bytes.Lines(sdp) {
		if bytes.HasPrefix(line, []byte("m=")) {
			end()
			inMedia = true
			line = bytes.Replace(line, []byte(" RTP/AVP "), []byte(" RTP/AVPF "), 1)
		}
		out = append(out, line...)
	}
	end()
	return out
}
