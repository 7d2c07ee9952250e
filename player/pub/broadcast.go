package pub

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/moqt"
	"sluice/player/catalog"
	"sluice/player/cmaf"
	"sluice/player/loc"
)

// initName is the name of the track with the init segment, as other publishers name it.
const initName = "0.mp4"

// mediaName returns the name of a media track.
func mediaName(id uint32, packaging string) string {
	if packaging == catalog.LOC {
		return fmt.Sprintf("%d.loc", id)
	}
	return fmt.Sprintf("%d.m4s", id)
}

// layeredName returns the name of the track in which the chunks of a media track are in layers; "" if there is none.
// Players of CMAF, such as moq-sub and moq-dev's, take one subgroup in each group only. So those that can take more
// have a track of their own.
func layeredName(cfg *PublisherConfig, t cmaf.TrackInfo) string {
	p := cfg.Priorities
	if cfg.Packaging == catalog.LOC || t.Kind != cmaf.Video || p.Key != p.Delta || p.Disposable != p.Delta {
		return ""
	}
	return fmt.Sprintf("%d.layers.m4s", t.ID)
}

// Priorities are the publisher priorities of subgroups; 0 is the most urgent (draft §7). Key frames, frames that others
// depend on (delta), and disposable frames get subgroups of their own if their priorities differ.
type Priorities struct {
	Catalog, Audio, Key, Delta, Disposable uint8
}

// DefaultPriorities prefer audio, which is small, to video. Frames without a container come in layers; chunks do so in
// a track of their own.
func DefaultPriorities(packaging string) Priorities {
	if packaging == catalog.LOC {
		return Priorities{Catalog: 16, Audio: 64, Key: 96, Delta: 128, Disposable: 160}
	}
	return Priorities{Catalog: 16, Audio: 64, Key: 128, Delta: 128, Disposable: 128}
}

// broadcast has the tracks of a namespace: the catalogs, the init segment and the media.
type broadcast struct {
	namespace moqt.Namespace
	byName    map[string]*track
	tracks    []*track // catalogs first, without those that have the layers of another one
	media     map[uint32]*track
}

func newBroadcast(cfg *PublisherConfig, s *source) (*broadcast, error) {
	in := s.init
	if err := checkPackaging(in, cfg.Packaging); err != nil {
		return nil, err
	}
	b := &broadcast{namespace: cfg.Namespace, byName: map[string]*track{}, media: map[uint32]*track{}}
	contents, err := catalogs(describe(s, cfg), cfg.Namespace)
	if err != nil {
		return nil, err
	}
	contents[initName] = in.Data
	for _, name := range staticNames(cfg.Packaging) {
		t, err := b.add(cfg, name, cfg.Priorities.Catalog, true)
		if err != nil {
			return nil, err
		}
		t.content = contents[name]
		t.republish(*cfg.FirstGroup)
	}
	for _, track := range in.Tracks {
		if err := b.addMedia(cfg, track); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// addMedia adds a media track, and the track with its layers.
func (b *broadcast) addMedia(cfg *PublisherConfig, info cmaf.TrackInfo) error {
	layers := single(cfg.Priorities.Audio)
	if p := cfg.Priorities; info.Kind == cmaf.Video {
		layers.key, layers.delta, layers.last = p.Key, p.Delta, p.Disposable
	}
	t, err := b.add(cfg, mediaName(info.ID, cfg.Packaging), layers.delta, false, timescale(cfg, info)...)
	if err != nil {
		return err
	}
	t.layers, t.frames = layers, cfg.Packaging == catalog.LOC
	t.dependency = loc.NewDependency(info.Codec)
	t.datagrams = info.Kind == cmaf.Audio && cfg.Datagrams
	b.media[info.ID] = t
	if name := layeredName(cfg, info); name != "" {
		full := moqt.FullTrackName{Namespace: b.namespace, Name: name}
		t.layered = newTrack(full, t.priority, t.properties, cfg.History)
		t.layered.layers, t.layered.dependency = around(t.priority), t.dependency
		b.byName[name] = t.layered
	}
	return nil
}

// catalogs returns the catalog in each format, by the names of their tracks.
func catalogs(c catalog.Catalog, namespace moqt.Namespace) (map[string][]byte, error) {
	common, err1 := c.Common("/" + strings.Join(namespace, "/"))
	msf, err2 := c.MSF()
	hang, err3 := c.Hang()
	return map[string][]byte{catalog.CommonName: common, catalog.MSFName: msf, catalog.HangName: hang},
		errors.Join(err1, err2, err3)
}

// timescale returns the property with which a track of frames begins.
func timescale(cfg *PublisherConfig, t cmaf.TrackInfo) []moqt.KeyValuePair {
	if cfg.Packaging != catalog.LOC {
		return nil
	}
	return []moqt.KeyValuePair{loc.TrackProperty(t.Timescale)}
}

func (b *broadcast) add(
	cfg *PublisherConfig, name string, priority uint8, static bool, more ...moqt.KeyValuePair,
) (*track, error) {
	properties, err := trackProperties(cfg, priority, static, more)
	if err != nil {
		return nil, err
	}
	t := newTrack(moqt.FullTrackName{Namespace: b.namespace, Name: name}, priority, properties, cfg.History)
	b.byName[name] = t
	b.tracks = append(b.tracks, t)
	return t, nil
}

// trackProperties returns the properties of a track (draft §12). Media tracks have delivery timeouts. Catalogs and the
// init segment start a new group whenever a subscriber requests one.
func trackProperties(
	cfg *PublisherConfig, priority uint8, static bool, more []moqt.KeyValuePair,
) (moqt.Properties, error) {
	pairs := append(more, moqt.KeyValuePair{Type: moqt.PropertyDefaultPublisherPriority, Value: uint64(priority)})
	if static {
		pairs = append(pairs, moqt.KeyValuePair{Type: moqt.PropertyDynamicGroups, Value: 1})
	} else {
		for typ, timeout := range map[uint64]time.Duration{
			moqt.PropertyObjectDeliveryTimeout:   cfg.ObjectTimeout,
			moqt.PropertySubgroupDeliveryTimeout: cfg.SubgroupTimeout,
		} {
			if timeout > 0 {
				pairs = append(pairs, moqt.KeyValuePair{Type: typ, Value: uint64(max(timeout.Milliseconds(), 1))})
			}
		}
	}
	return moqt.NewProperties(pairs...)
}

// staticNames returns the names of the tracks that are not media. Frames without a container need no init segment, and
// hang's catalog cannot describe them.
func staticNames(packaging string) []string {
	if packaging == catalog.LOC {
		return []string{catalog.CommonName, catalog.MSFName}
	}
	return append(slices.Clone(catalog.Names), initName)
}

// repeat publishes the content of catalogs and of the init segment again.
func (b *broadcast) repeat() {
	for _, t := range b.tracks {
		if t.content != nil {
			t.republish(0)
		}
	}
}

// end completes all tracks.
func (b *broadcast) end() {
	for _, t := range b.byName {
		t.end()
	}
}

// describe returns the catalog of a source.
func describe(s *source, cfg *PublisherConfig) (c catalog.Catalog) {
	in, alternatives, packaging := s.init, s.alternatives(), cfg.Packaging
	for _, t := range in.Tracks {
		out := catalog.TrackEntry{
			Name: mediaName(t.ID, packaging), Packaging: packaging, Role: string(t.Kind), InitTrack: initName,
			InitData: in.Only(t.ID), Decoder: t.Config,
			Codec: t.Codec, Width: t.Width, Height: t.Height, SampleRate: t.SampleRate, Bitrate: t.Bitrate,
			Timescale: int(t.Timescale), Language: t.Language, RenderGroup: 1,
			AltGroup: alternatives[t.ID], Layers: layeredName(cfg, t),
		}
		if packaging == catalog.LOC {
			out.InitTrack, out.InitData, out.Decoder = "", t.Config, nil
		}
		if t.Channels > 0 {
			out.Channels = fmt.Sprint(t.Channels)
		}
		c.Tracks = append(c.Tracks, out)
	}
	return c
}
