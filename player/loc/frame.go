package loc

import (
	"errors"
	"fmt"

	"github.com/quic-go/quic-go/quicvarint"

	"sluice/moqt"
	"sluice/player/catalog"
)

// Types of the properties (draft-ietf-moq-loc-04 §2.3). The registry of drafts up to MOQT 19 has other numbers for two
// of them (draft-ietf-moq-transport-18 §15.7).
const (
	timescaleProperty   = 0x08
	frameMarking        = 0x09
	videoConfig         = 0x0d
	audioConfig         = 0x0f
	timestampProperty   = 0x10
	timestampProperty18 = 0x06
	frameMarking18      = 0x0a
)

// Frame is a frame and its object's properties.
type Frame struct {
	Timestamp uint64 // presentation time
	Timed     bool   // there is a Timestamp
	Timescale uint64 // units of Timestamp per second; 0: not said
	Config    []byte // of the decoder: the body of avcC, hvcC or av1C, or an AudioSpecificConfig; nil: not said
	Payload   []byte

	// Of frames that are written only.
	Video      bool
	Key        bool // decoding can start here
	Disposable bool // no other frame depends on this one
}

// Flags of Video Frame Marking for a stream without layers (RFC 9626 §3.2).
const (
	markStart       = 0x80
	markEnd         = 0x40
	markIndependent = 0x20
	markDiscardable = 0x10
)

func (f *Frame) marking() byte {
	m := byte(markStart | markEnd)
	if f.Key {
		m |= markIndependent
	}
	if f.Disposable {
		m |= markDiscardable
	}
	return m
}

// Properties returns the properties of the frame's object, as the sessions of a version have them.
func (f *Frame) Properties(v moqt.Version) (moqt.Properties, error) {
	timestamp := uint64(timestampProperty)
	marking := moqt.KeyValuePair{Type: frameMarking, Bytes: []byte{f.marking()}}
	if v < moqt.Draft20 {
		timestamp = timestampProperty18
		marking = moqt.KeyValuePair{Type: frameMarking18, Value: uint64(f.marking())}
	}
	pairs := []moqt.KeyValuePair{
		{Type: timestamp, Value: f.Timestamp},
		{Type: timescaleProperty, Value: f.Timescale},
	}
	config := uint64(audioConfig)
	if f.Video {
		config = videoConfig
		pairs = append(pairs, marking)
	}
	if len(f.Config) > 0 {
		pairs = append(pairs, moqt.KeyValuePair{Type: config, Bytes: f.Config})
	}
	return moqt.NewProperties(pairs...)
}

// Parse reads an object of a track with this packaging: LOC, or one of hang's containers, which have everything in the
// payload. The frame shares memory with the object.
func Parse(packaging string, properties moqt.Properties, payload []byte) (Frame, error) {
	switch packaging {
	case catalog.LOC:
		f := Frame{Payload: payload}
		// A property may be in either list (draft-ietf-moq-transport-18 §12.7).
		for _, list := range []moqt.Properties{properties.Immutable(), properties} {
			for p := range list.All() {
				f.take(p)
			}
		}
		return f, nil
	case catalog.HangLegacy:
		time, n, err := quicvarint.Parse(payload)
		if err != nil {
			return Frame{}, fmt.Errorf("frame without a time: %w", err)
		}
		return Frame{Timestamp: time, Timed: true, Timescale: microseconds, Payload: payload[n:]}, nil
	case catalog.HangLOC:
		return parseHangLOC(payload)
	}
	return Frame{}, fmt.Errorf("packaging %q has no frames", packaging)
}

// Timescales.
const (
	microseconds = 1_000_000
	clockRate    = 90_000 // in which decode times are found
)

// Timescale returns the timescale that the properties of a track state, or 0.
func Timescale(track moqt.Properties) uint64 {
	p, _ := track.Lookup(timescaleProperty)
	return p.Value
}

// TrackProperty returns the property of a track that states its timescale.
func TrackProperty(timescale uint32) moqt.KeyValuePair {
	return moqt.KeyValuePair{Type: timescaleProperty, Value: uint64(timescale)}
}

// take sets the field of a property. Both numbers of a property mean the same: relays do not change them for
// subscribers of other drafts.
func (f *Frame) take(p moqt.KeyValuePair) {
	switch p.Type {
	case timestampProperty, timestampProperty18:
		f.Timestamp, f.Timed = p.Value, true
	case timescaleProperty:
		f.Timescale = p.Value
	case videoConfig, audioConfig:
		f.Config = p.Bytes
	}
}

// parseHangLOC reads hang's container of the kind "loc": properties as on the wire, but with the varints of QUIC and
// their length in front, and the frame.
func parseHangLOC(b []byte) (Frame, error) {
	length, n, err := quicvarint.Parse(b)
	if err != nil || length > uint64(len(b)-n) {
		return Frame{}, errors.New("frame ends within its properties")
	}
	f := Frame{Timescale: microseconds, Payload: b[n+int(length):]}
	b = b[n : n+int(length)]
	for p := (moqt.KeyValuePair{}); len(b) > 0; {
		delta, n, err := quicvarint.Parse(b)
		if err != nil {
			return Frame{}, fmt.Errorf("property: %w", err)
		}
		value, m, err := quicvarint.Parse(b[n:])
		if err != nil {
			return Frame{}, fmt.Errorf("property: %w", err)
		}
		b = b[n+m:]
		p = moqt.KeyValuePair{Type: p.Type + delta, Value: value}
		if p.Type%2 == 1 {
			if value > uint64(len(b)) {
				return Frame{}, errors.New("frame ends within its properties")
			}
			p.Bytes, b = b[:value], b[value:]
		}
		f.take(p)
	}
	return f, nil
}
