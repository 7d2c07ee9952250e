package catalog

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// msfVersion is the version that is written. Versions 00 and 01 are read: 00 has a number, and init data in the track.
const msfVersion = "draft-01"

// msf is a catalog of draft-ietf-moq-msf. Init data comes after the tracks, as the draft requires.
type msf struct {
	Version  json.RawMessage `json:"version"`
	Tracks   []msfTrack      `json:"tracks"`
	InitData []msfInit       `json:"initDataList,omitempty"`
}

type msfTrack struct {
	Name          string  `json:"name"`
	Namespace     string  `json:"namespace,omitempty"`
	Packaging     string  `json:"packaging,omitempty"`
	IsLive        bool    `json:"isLive"`
	Role          string  `json:"role,omitempty"`
	RenderGroup   int     `json:"renderGroup,omitempty"`
	AltGroup      int     `json:"altGroup,omitempty"`
	InitRef       string  `json:"initRef,omitempty"`
	InitData      []byte  `json:"initData,omitempty"`
	Codec         string  `json:"codec,omitempty"`
	MIMEType      string  `json:"mimeType,omitempty"`
	Framerate     float64 `json:"framerate,omitempty"`
	Timescale     int     `json:"timescale,omitempty"`
	Bitrate       int     `json:"bitrate,omitempty"`
	Width         int     `json:"width,omitempty"`
	Height        int     `json:"height,omitempty"`
	SampleRate    int     `json:"samplerate,omitempty"`
	ChannelConfig string  `json:"channelConfig,omitempty"`
	Channels      int     `json:"channels,omitempty"` // MediaMTX has this instead; not written
	Language      string  `json:"lang,omitempty"`
	Layers        string  `json:"x-layers,omitempty"` // Sluice's own
}

// msfInit is an entry of the initialization data list; only the type "inline" holds the data itself.
type msfInit struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Data string `json:"data"`
}

// MSF encodes the catalog of a live broadcast as MSF. It has the init segment of a track twice: where draft 01 of MSF,
// and where CMSF and draft 00 expect it.
func (c Catalog) MSF() ([]byte, error) {
	version, _ := json.Marshal(msfVersion)
	out := msf{Version: version, Tracks: []msfTrack{}}
	for _, t := range c.Tracks {
		track := newMSFTrack(t)
		if len(t.InitData) > 0 {
			track.InitRef = "init-" + t.Name
			out.InitData = append(out.InitData, msfInit{
				ID: track.InitRef, Type: "inline", Data: base64.StdEncoding.EncodeToString(t.InitData),
			})
		}
		out.Tracks = append(out.Tracks, track)
	}
	return json.Marshal(out)
}

func newMSFTrack(t TrackEntry) msfTrack {
	return msfTrack{
		Name: t.Name, Namespace: t.Namespace, Packaging: t.Packaging, IsLive: true, Role: t.Role,
		RenderGroup: t.RenderGroup, AltGroup: t.AltGroup, InitData: t.InitData,
		Codec: t.Codec, MIMEType: t.MIMEType, Framerate: t.Framerate, Timescale: t.Timescale, Bitrate: t.Bitrate,
		Width: t.Width, Height: t.Height, SampleRate: t.SampleRate, ChannelConfig: t.Channels, Language: t.Language,
		Layers: t.Layers,
	}
}

func (t msfTrack) entry() TrackEntry {
	if t.ChannelConfig == "" && t.Channels > 0 {
		t.ChannelConfig = strconv.Itoa(t.Channels)
	}
	return TrackEntry{
		Name: t.Name, Namespace: t.Namespace, Packaging: t.Packaging, Role: t.Role, InitData: t.InitData,
		RenderGroup: t.RenderGroup, AltGroup: t.AltGroup,
		Codec: t.Codec, MIMEType: t.MIMEType, Framerate: t.Framerate, Timescale: t.Timescale, Bitrate: t.Bitrate,
		Width: t.Width, Height: t.Height, SampleRate: t.SampleRate, Channels: t.ChannelConfig, Language: t.Language,
		Layers: t.Layers,
	}
}

func parseMSF(b []byte) (Catalog, error) {
	var in msf
	if err := json.Unmarshal(b, &in); err != nil {
		return Catalog{}, err
	}
	if v := string(in.Version); v != "1" && !strings.HasPrefix(v, `"`) {
		return Catalog{}, fmt.Errorf("version %s of MSF is not known", v)
	}
	inline := map[string][]byte{}
	for _, i := range in.InitData {
		if data, err := base64.StdEncoding.DecodeString(i.Data); i.Type == "inline" && err == nil {
			inline[i.ID] = data
		}
	}
	var c Catalog
	clockRates := in.hasClockRates()
	for _, t := range in.Tracks {
		out := t.entry()
		if out.InitData == nil {
			out.InitData = inline[t.InitRef]
		}
		out.Role = cmp.Or(out.Role, role(out))
		if clockRates {
			out.Timescale = cmp.Or(out.SampleRate, videoClockRate)
		}
		c.Tracks = append(c.Tracks, out)
	}
	return c, nil
}

// videoClockRate is the clock rate of video in RTP.
const videoClockRate = 90_000

// hasClockRates reports whether the catalog is MediaMTX's (1.20), whose times are in units of RTP's clock rates without
// saying so. It names its tracks 0, 1, and so on, without roles.
func (in *msf) hasClockRates() bool {
	for i, t := range in.Tracks {
		if string(in.Version) != "1" || t.Name != strconv.Itoa(i) || t.Packaging != LOC || t.Role != "" ||
			t.Timescale != 0 {
			return false
		}
	}
	return true
}
