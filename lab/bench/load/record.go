package load

import (
	"context"
	"net/url"
	"time"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/bluenviron/gortsplib/v5/pkg/format"
	"github.com/bluenviron/gortsplib/v5/pkg/format/rtph264"
	"github.com/pion/rtcp"

	"sluice/clock"
	"sluice/lab/bench/video"
)

// Types of NAL units (H.264 §7.4.1), with the highest priority.
const (
	nalSlice    = 0x61
	nalKeySlice = 0x65
)

// parameterSets are a sequence and a picture parameter set of H.264: 1920 × 1080, Main profile.
var parameterSets = [2][]byte{
	{0x67, 0x4d, 0x40, 0x28, 0x95, 0xa0, 0x1e, 0x00, 0x89, 0xf9, 0x66},
	{0x68, 0xee, 0x3c, 0x80},
}

const (
	clockRate = 90000 // of RTP timestamps of video (RFC 6184 §8.2.1)
	// rtpPayload is the largest payload of RTP packets.
	rtpPayload = 1400
	// aliveInterval is how often a publisher without media shows that it is there.
	aliveInterval = time.Second
)

// recorder is a publisher that uses RTSP.
type recorder struct {
	client  *gortsplib.Client
	desc    *description.Session
	encoder *rtph264.Encoder
	packets uint64
}

// newRecorder starts a session that records.
func newRecorder(address string) (*recorder, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	h264 := &format.H264{PayloadTyp: 96, PacketizationMode: 1, SPS: parameterSets[0], PPS: parameterSets[1]}
	encoder := &rtph264.Encoder{PayloadType: h264.PayloadTyp, PayloadMaxSize: rtpPayload, PacketizationMode: 1}
	if err := encoder.Init(); err != nil {
		return nil, err
	}
	r := &recorder{
		client: &gortsplib.Client{Scheme: u.Scheme, Host: u.Host, Protocol: new(gortsplib.ProtocolUDP)},
		desc: &description.Session{Medias: []*description.Media{
			{Type: description.MediaTypeVideo, Formats: []format.Format{h264}},
		}},
		encoder: encoder,
	}
	return r, r.client.StartRecording(address, r.desc)
}

// stayAlive sends a report now and then, until the returned function is called: relays end sessions without packets.
func (r *recorder) stayAlive(ctx context.Context) (rest func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range clock.Every(aliveInterval, ctx.Done()) {
			// If it fails, so does the media.
			_ = r.client.WritePacketRTCP(r.desc.Medias[0], &rtcp.ReceiverReport{})
		}
	}()
	return func() { cancel(); <-done }
}

// send publishes a frame as a NAL unit.
func (r *recorder) send(f video.Frame, payload []byte) error {
	unit := byte(nalSlice)
	if f.Object == 0 {
		unit = nalKeySlice
	}
	packets, err := r.encoder.Encode([][]byte{append([]byte{unit}, payload...)})
	if err != nil {
		return err
	}
	for _, p := range packets {
		p.Timestamp = timestamp(f)
		if err := r.client.WritePacketRTP(r.desc.Medias[0], p); err != nil {
			return err
		}
		r.packets++
	}
	return nil
}

// timestamp returns the RTP timestamp of a frame: 0 for the first.
func timestamp(f video.Frame) uint32 { return uint32(f.Due * clockRate / time.Second) }
