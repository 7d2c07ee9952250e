package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Names of the tracks that carry a catalog.
const (
	CommonName = ".catalog"
	MSFName    = "catalog"
	HangName   = "catalog.json"
)

// Names lists them in the order in which a player tries them. All describe the same tracks; the first one that is there
// counts. The common format comes first because some publishers that have it end a session that asks for another name.
var Names = []string{CommonName, MSFName, HangName}

// Packagings: how the objects of a track hold media.
const (
	CMAF       = "cmaf"     // chunks
	LOC        = "loc"      // a frame each; times are properties of objects
	HangLegacy = "legacy"   // a time in microseconds as a varint of QUIC, and a frame
	HangLOC    = "hang-loc" // the properties of LOC in the payload, and a frame; "loc" in hang's catalogs
)

// Limits on a catalog that is read, so that a hostile one takes little memory.
const (
	MaxSize   = 1 << 20 // bytes of JSON
	maxTracks = 256
	maxValues = 32 * maxTracks // of JSON: one of two bytes may become a track, of hundreds
)

// ErrDelta is the error of an update relative to an earlier catalog where a whole catalog is expected.
var ErrDelta = errors.New("this is a delta update, not a whole catalog")

// Catalog has the fields of all formats that players need.
type Catalog struct {
	Tracks []TrackEntry
}

// TrackEntry describes one track of a broadcast. A field that the catalog does not have is zero.
type TrackEntry struct {
	Name      string
	Namespace string // fields joined by "/"; empty: the catalog's
	Packaging string // one of the constants, or another string
	Role      string // "video", "audio", ...
	InitTrack string // name of the track whose first object is the init segment
	InitData  []byte // or the init segment itself; without CMAF: the decoder's configuration
	Decoder   []byte // the decoder's configuration beside an init segment, in hang's catalogs

	Codec         string // RFC 6381
	MIMEType      string
	Width, Height int     // pixels
	Framerate     float64 // frames per second
	SampleRate    int     // Hz
	Channels      string  // channel configuration, "2" for stereo
	Bitrate       int     // bits per second
	Timescale     int     // ticks per second
	Language      string
	RenderGroup   int
	AltGroup      int
	Layers        string // name of a track with the same objects, whose layers have subgroups of their own
}

// Parse reads a catalog of any format.
func Parse(b []byte) (Catalog, error) {
	if len(b) > MaxSize {
		return Catalog{}, fmt.Errorf("catalog of %d bytes, the limit is %d", len(b), MaxSize)
	}
	if n := bytes.Count(b, []byte{','}); n > maxValues {
		return Catalog{}, fmt.Errorf("catalog with %d values, the limit is %d", n, maxValues)
	}
	var head struct {
		Version         json.RawMessage `json:"version"`
		StreamingFormat json.RawMessage `json:"streamingFormat"`
		DeltaUpdate     json.RawMessage `json:"deltaUpdate"`
		Operations      json.RawMessage `json:"op"`
		Video           json.RawMessage `json:"video"`
		Audio           json.RawMessage `json:"audio"`
	}
	switch err := json.Unmarshal(b, &head); {
	case err != nil && len(b) > 0 && b[0] == '[': // a JSON Patch of the common format
		return Catalog{}, ErrDelta
	case err != nil:
		return Catalog{}, fmt.Errorf("catalog: %w", err)
	case head.DeltaUpdate != nil || head.Operations != nil:
		return Catalog{}, ErrDelta
	}
	var parse func([]byte) (Catalog, error)
	switch {
	case head.StreamingFormat != nil:
		parse = parseCommon
	case head.Version != nil:
		parse = parseMSF
	case head.Video != nil || head.Audio != nil:
		parse = parseHang
	default:
		return Catalog{}, errors.New("catalog: no version")
	}
	c, err := parse(b)
	if err != nil {
		return Catalog{}, fmt.Errorf("catalog: %w", err)
	}
	return c, c.check()
}

func (c Catalog) check() error {
	if len(c.Tracks) > maxTracks {
		return fmt.Errorf("catalog: more than %d tracks", maxTracks)
	}
	for _, t := range c.Tracks {
		if t.Name == "" {
			return errors.New("catalog: a track has no name")
		}
	}
	return nil
}

// Common encodes the catalog in the common format. All tracks must have the same packaging and render group. Players
// require a namespace.
func (c Catalog) Common(namespace string) ([]byte, error) {
	out := common{
		Version:                commonVersion,
		StreamingFormat:        streamingFormat,
		StreamingFormatVersion: streamingFormatText,
		CommonTrackFields:      commonFields{Namespace: namespace},
		Tracks:                 []commonTrack{},
	}
	for _, t := range c.Tracks {
		out.CommonTrackFields.Packaging, out.CommonTrackFields.RenderGroup = t.Packaging, t.RenderGroup
		track := newMSFTrack(t)
		if t.InitTrack != "" {
			track.InitData = nil
		}
		out.Tracks = append(out.Tracks, commonTrack{
			msfTrack:  track,
			InitTrack: t.InitTrack,
			SelectionParams: selectionParams{
				Codec: t.Codec, MIMEType: t.MIMEType, Framerate: t.Framerate, Bitrate: t.Bitrate, Width: t.Width,
				Height:     t.Height,
				SampleRate: t.SampleRate, ChannelConfig: t.Channels, Language: t.Language,
			},
		})
	}
	return json.MarshalIndent(out, "", "  ")
}

// role guesses the role of a track from its codec: the common format has no roles.
func role(t TrackEntry) string {
	switch {
	case t.Width > 0 || strings.HasPrefix(t.MIMEType, "video/"):
		return "video"
	case t.SampleRate > 0 || t.Channels != "" || strings.HasPrefix(t.MIMEType, "audio/"):
		return "audio"
	}
	for _, video := range []string{"avc", "hvc", "hev", "av01", "vp0"} {
		if strings.HasPrefix(t.Codec, video) {
			return "video"
		}
	}
	for _, audio := range []string{"mp4a", "opus", "ac-3", "ec-3", "flac"} {
		if strings.HasPrefix(strings.ToLower(t.Codec), audio) {
			return "audio"
		}
	}
	return ""
}
