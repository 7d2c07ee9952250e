package rtsp

import (
	"bytes"
	"fmt"
	"net/url"

	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/bluenviron/gortsplib/v5/pkg/headers"
)

// wantsNACK reports whether a query asks for a description that offers NACK (?nack=1). Such a description has another
// profile. GStreamer asks for it in SETUP, and the library refuses. So it is not the default.
func wantsNACK(query string) bool {
	values, _ := url.ParseQuery(query) // the readable part
	return values.Get("nack") == "1"
}

// describeNACK returns the description of the player's stream, as the library makes it, but with the profile RTP/AVPF
// and NACK (RFC 4585 §4). The library has no place for that.
func (p *player) describeNACK() ([]byte, error) {
	desc := &description.Session{Title: p.stream.desc.Title, FECGroups: p.stream.desc.FECGroups}
	for i, m := range p.stream.desc.Medias {
		if m.IsBackChannel {
			continue
		}
		desc.Medias = append(desc.Medias, &description.Media{
			Type: m.Type, ID: m.ID, Control: fmt.Sprintf("trackID=%d", i), Profile: headers.TransportProfileAVP,
			Formats: m.Formats,
		})
	}
	b, err := desc.Marshal()
	return offerNACK(b), err
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
