package catalog

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// hang is a catalog of moq-dev's hang: sections with renditions by the names of their tracks. The renditions of a
// section are alternatives.
type hang struct {
	Video *hangSection `json:"video,omitempty"`
	Audio *hangSection `json:"audio,omitempty"`
}

type hangSection struct {
	Renditions map[string]hangRendition `json:"renditions"`
}

// hangRendition has the fields of a VideoDecoderConfig or an AudioDecoderConfig of WebCodecs, and the container.
type hangRendition struct {
	Broadcast        string        `json:"broadcast,omitempty"` // that has the track, if not this one
	Codec            string        `json:"codec"`
	Container        hangContainer `json:"container"`
	Description      string        `json:"description,omitempty"` // decoder configuration, in hex
	CodedWidth       int           `json:"codedWidth,omitempty"`
	CodedHeight      int           `json:"codedHeight,omitempty"`
	Framerate        float64       `json:"framerate,omitempty"`
	SampleRate       int           `json:"sampleRate,omitempty"`
	NumberOfChannels int           `json:"numberOfChannels,omitempty"`
	Bitrate          int           `json:"bitrate,omitempty"`
}

// hangContainer says how objects hold media. A rendition without one has the kind "legacy".
type hangContainer struct {
	Kind string `json:"kind"`
	Init []byte `json:"init,omitempty"` // init segment, with the kind "cmaf"
}

// UnmarshalJSON reads the fields of known kinds only.
func (c *hangContainer) UnmarshalJSON(b []byte) error {
	var in struct {
		Kind string          `json:"kind"`
		Init json.RawMessage `json:"init"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	c.Kind = in.Kind
	if hangPackaging[c.Kind] != CMAF {
		return nil
	}
	return json.Unmarshal(in.Init, &c.Init)
}

// hangPackaging has the packaging of each kind of container. Renditions of other kinds are left out, as the format
// wants.
var hangPackaging = map[string]string{"": HangLegacy, "legacy": HangLegacy, "cmaf": CMAF, "loc": HangLOC}

// Hang encodes the catalog in hang's format, which has video and audio only. It has no packaging like LOC, where times
// are properties of objects: such tracks are left out.
func (c Catalog) Hang() ([]byte, error) {
	var out hang
	for _, t := range c.Tracks {
		if t.Packaging != CMAF {
			continue
		}
		r := hangRendition{
			Codec: t.Codec, Container: hangContainer{Kind: "cmaf", Init: t.InitData}, Bitrate: t.Bitrate,
			Description: hex.EncodeToString(t.Decoder), // without it moq-cli takes H.264 for Annex B
			CodedWidth:  t.Width, CodedHeight: t.Height, Framerate: t.Framerate, SampleRate: t.SampleRate,
		}
		r.NumberOfChannels, _ = strconv.Atoi(t.Channels) // 0, which is left out: not a number
		switch t.Role {
		case "video":
			out.Video = out.Video.with(t.Name, r)
		case "audio":
			out.Audio = out.Audio.with(t.Name, r)
		}
	}
	return json.Marshal(out)
}

func (s *hangSection) with(name string, r hangRendition) *hangSection {
	if s == nil {
		s = &hangSection{Renditions: map[string]hangRendition{}}
	}
	s.Renditions[name] = r
	return s
}

// Alternate groups of the tracks of a hang catalog.
const (
	hangVideo = 1 + iota
	hangAudio
)

func parseHang(b []byte) (Catalog, error) {
	var in hang
	if err := json.Unmarshal(b, &in); err != nil {
		return Catalog{}, err
	}
	video, err := in.Video.tracks("video", hangVideo)
	if err != nil {
		return Catalog{}, err
	}
	audio, err := in.Audio.tracks("audio", hangAudio)
	return Catalog{Tracks: append(video, audio...)}, err
}

// tracks returns the tracks of a section, the best rendition first.
func (s *hangSection) tracks(role string, altGroup int) (tracks []TrackEntry, err error) {
	if s == nil {
		return nil, nil
	}
	for name, r := range s.Renditions {
		packaging, known := hangPackaging[r.Container.Kind]
		if !known || r.Broadcast != "" {
			continue
		}
		t := TrackEntry{
			Name: name, Packaging: packaging, Role: role, AltGroup: altGroup, InitData: r.Container.Init,
			Codec: r.Codec, Width: r.CodedWidth, Height: r.CodedHeight, Framerate: r.Framerate,
			SampleRate: r.SampleRate, Bitrate: r.Bitrate,
		}
		decoder := &t.Decoder
		if packaging != CMAF {
			decoder = &t.InitData
		}
		if *decoder, err = hex.DecodeString(r.Description); err != nil {
			return nil, fmt.Errorf("description of %s: %w", name, err)
		}
		if r.NumberOfChannels > 0 {
			t.Channels = strconv.Itoa(r.NumberOfChannels)
		}
		tracks = append(tracks, t)
	}
	slices.SortFunc(tracks, func(a, b TrackEntry) int {
		return cmp.Or(cmp.Compare(b.Bitrate, a.Bitrate), cmp.Compare(b.Height, a.Height), cmp.Compare(a.Name, b.Name))
	})
	return tracks, nil
}
