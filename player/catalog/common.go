package catalog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// commonVersion and the streaming format are the values of moq-pub, moq-sub and gst-moq-pub.
const (
	commonVersion       = 1
	streamingFormat     = 1
	streamingFormatText = "0.2"
)

// common is a catalog of draft-ietf-moq-catalogformat-01. Its tracks have the fields of draft-ietf-moq-msf-00, too,
// whose version is the same number, for players that look for MSF in this track.
type common struct {
	Version                int           `json:"version"`
	StreamingFormat        int           `json:"streamingFormat"`
	StreamingFormatVersion string        `json:"streamingFormatVersion"`
	SupportsDeltaUpdates   bool          `json:"supportsDeltaUpdates"`
	CommonTrackFields      commonFields  `json:"commonTrackFields"`
	Tracks                 []commonTrack `json:"tracks"`
}

// commonFields are fields with the same value for all tracks.
type commonFields struct {
	Namespace   string `json:"namespace,omitempty"`
	Packaging   string `json:"packaging,omitempty"`
	RenderGroup int    `json:"renderGroup,omitempty"`
	AltGroup    int    `json:"altGroup,omitempty"`
}

type commonTrack struct {
	msfTrack
	InitTrack       string          `json:"initTrack,omitempty"`
	SelectionParams selectionParams `json:"selectionParams"`
}

type selectionParams struct {
	Codec         string  `json:"codec,omitempty"`
	MIMEType      string  `json:"mimeType,omitempty"`
	Framerate     float64 `json:"framerate,omitempty"`
	Bitrate       int     `json:"bitrate,omitempty"`
	Width         int     `json:"width,omitempty"`
	Height        int     `json:"height,omitempty"`
	SampleRate    int     `json:"samplerate,omitempty"`
	ChannelConfig string  `json:"channelConfig,omitempty"`
	Language      string  `json:"lang,omitempty"`
}

func parseCommon(b []byte) (Catalog, error) {
	var in common
	if err := json.Unmarshal(b, &in); err != nil {
		return Catalog{}, err
	}
	if in.Version != commonVersion {
		return Catalog{}, fmt.Errorf("version %d of the common catalog format is not known", in.Version)
	}
	var c Catalog
	for _, t := range in.Tracks {
		out := t.entry()
		out.InitTrack = t.InitTrack
		out.Namespace = strings.TrimPrefix(cmp.Or(out.Namespace, in.CommonTrackFields.Namespace), "/")
		out.Packaging = cmp.Or(out.Packaging, in.CommonTrackFields.Packaging)
		out.RenderGroup = cmp.Or(out.RenderGroup, in.CommonTrackFields.RenderGroup)
		out.AltGroup = cmp.Or(out.AltGroup, in.CommonTrackFields.AltGroup)
		t.SelectionParams.override(&out)
		out.Role = cmp.Or(out.Role, role(out))
		c.Tracks = append(c.Tracks, out)
	}
	return c, nil
}

// override sets the fields that p has.
func (p selectionParams) override(t *TrackEntry) {
	t.Codec, t.MIMEType = cmp.Or(p.Codec, t.Codec), cmp.Or(p.MIMEType, t.MIMEType)
	t.Width, t.Height = cmp.Or(p.Width, t.Width), cmp.Or(p.Height, t.Height)
	t.Framerate, t.Bitrate = cmp.Or(p.Framerate, t.Framerate), cmp.Or(p.Bitrate, t.Bitrate)
	t.SampleRate, t.Channels = cmp.Or(p.SampleRate, t.SampleRate), cmp.Or(p.ChannelConfig, t.Channels)
	t.Language = cmp.Or(p.Language, t.Language)
}
