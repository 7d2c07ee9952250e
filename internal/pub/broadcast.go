package pub

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/internal/catalog"
	"sluice/internal/cmaf"
	"sluice/moqt"
)

// initName is the name of the track with the init segment, as other publishers name it.
const initName = "0.mp4"

// mediaName returns the name of a media track.
func mediaName(id uint32) string { return fmt.Sprintf("%d.m4s", id) }

// Priorities are the publisher priorities of subgroups; 0 is the most urgent (draft §7). Key frames get subgroups of
// their own if their priority is not that of the other frames.
type Priorities struct {
	Catalog, Audio, Key, Delta uint8
}

// DefaultPriorities prefer audio, which is small, to video.
var DefaultPriorities = Priorities{Catalog: 16, Audio: 64, Key: 128, Delta: 128}

// broadcast has the tracks of a namespace: the catalogs, the init segment and the media.
type broadcast struct {
	namespace moqt.Namespace
	byName    map[string]*track
	tracks    []*track // catalogs first
	media     map[uint32]*track
}

func newBroadcast(cfg *PublisherConfig, in *cmaf.Init, first uint64) (*broadcast, error) {
	b := &broadcast{namespace: cfg.Namespace, byName: map[string]*track{}, media: map[uint32]*track{}}
	contents, err := catalogs(describe(in), cfg.Namespace)
	if err != nil {
		return nil, err
	}
	contents[initName] = in.Data
	for _, name := range append(slices.Clone(catalog.Names), initName) {
		t, err := b.add(cfg, name, cfg.Priorities.Catalog, true)
		if err != nil {
			return nil, err
		}
		t.content = contents[name]
		t.republish(first)
	}
	for _, track := range in.Tracks {
		priority := cfg.Priorities.Audio
		if track.Kind == cmaf.Video {
			priority = cfg.Priorities.Delta
		}
		t, err := b.add(cfg, mediaName(track.ID), priority, false)
		if err != nil {
			return nil, err
		}
		t.split = track.Kind == cmaf.Video && cfg.Priorities.Key != cfg.Priorities.Delta
		t.datagrams = track.Kind == cmaf.Audio && cfg.Datagrams
		b.media[track.ID] = t
	}
	return b, nil
}

// catalogs returns the catalog in each format, by the names of their tracks.
func catalogs(c catalog.Catalog, namespace moqt.Namespace) (map[string][]byte, error) {
	common, err1 := c.Common("/" + strings.Join(namespace, "/"))
	msf, err2 := c.MSF()
	hang, err3 := c.Hang()
	return map[string][]byte{catalog.CommonName: common, catalog.MSFName: msf, catalog.HangName: hang},
		errors.Join(err1, err2, err3)
}

func (b *broadcast) add(cfg *PublisherConfig, name string, priority uint8, static bool) (*track, error) {
	properties, err := trackProperties(cfg, priority, static)
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
func trackProperties(cfg *PublisherConfig, priority uint8, static bool) (moqt.Properties, error) {
	pairs := []moqt.KeyValuePair{{Type: moqt.PropertyDefaultPublisherPriority, Value: uint64(priority)}}
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

// trackNames returns the names of all tracks of a broadcast.
func trackNames(in *cmaf.Init) []string {
	names := append(slices.Clone(catalog.Names), initName)
	for _, t := range in.Tracks {
		names = append(names, mediaName(t.ID))
	}
	return names
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
	for _, t := range b.tracks {
		t.end()
	}
}

// describe returns the catalog of an init segment.
func describe(in *cmaf.Init) (c catalog.Catalog) {
	for _, t := range in.Tracks {
		out := catalog.TrackEntry{
			Name: mediaName(t.ID), Packaging: catalog.CMAF, Role: string(t.Kind), InitTrack: initName,
			InitData: in.Only(t.ID),
			Codec:    t.Codec, Width: t.Width, Height: t.Height, SampleRate: t.SampleRate, Bitrate: t.Bitrate,
			Timescale: int(t.Timescale), Language: t.Language, RenderGroup: 1,
		}
		if t.Channels > 0 {
			out.Channels = fmt.Sprint(t.Channels)
		}
		c.Tracks = append(c.Tracks, out)
	}
	return c
}
