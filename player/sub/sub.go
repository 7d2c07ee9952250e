package sub

import (
	"cmp"
	"errors"
	"io"
	"log/slog"
	"time"

	"sluice/moqt"
	"sluice/player/catalog"
	"sluice/player/client"
)

// PlayerConfig is the configuration of [Run]. Namespace and Out are required. The zero value of any other field is its
// default.
type PlayerConfig struct {
	Namespace moqt.Namespace
	// Out gets the media, fragmented MP4, or with Raw a line of text for each object.
	Out io.Writer

	// Tracks are the names or roles ("video", "audio") of the tracks to play. Default: all, but only one of each
	// alternate group.
	Tracks []string
	// Rendition is which track of an alternate group to play: a name, a height such as "720p", RenditionBest,
	// RenditionLeast, or RenditionRelay, with which the relay chooses again and again, if it can. Default:
	// RenditionRelay, but with Verify the first one, or the best one within MaxBitrate.
	Rendition string
	// MaxBitrate is the highest bitrate of a track that is one of several renditions, in bits per second. If none is
	// within it, the track with the least bitrate is played. Default: no limit.
	MaxBitrate int
	// Width and Height are the size of the display, in pixels. The relay chooses no rendition with more pixels, unless
	// all have more. Default: not known.
	Width, Height int
	// Catalogs are the names of tracks that may have the catalog, in the order in which they are tried.
	Catalogs []string
	// Raw lists the objects of Tracks instead of playing them, without a catalog.
	Raw bool
	// Join is how many groups before the current one playback starts.
	Join uint64
	// Duration and Objects are limits after which playback ends. Default: none. Duration counts from where all tracks
	// have begun that are there at the start: their groups need not begin together.
	Duration time.Duration
	Objects  uint64
	// Hold is how long to wait for a missing object when later ones have arrived. Default: 2 s.
	Hold time.Duration
	// Wait is how long to wait for a publisher if there is none yet. Default: not at all. When playback is interrupted,
	// Run waits for the publisher at least as long as for a relay (Client.ReconnectTimeout).
	Wait time.Duration
	// Memory bounds the kept part of the broadcast. Default: 64 MiB of objects that wait, beside those that arrive.
	Memory Memory
	// Verify is a file whose chunks the broadcast must have, up to the file's end unless a limit ends playback.
	Verify io.Reader

	Client client.SessionConfig

	try func(func()) // [playback.try], for receivers that know no playback
}

func (c *PlayerConfig) validate() error {
	switch {
	case c.Out == nil:
		return errors.New("no output to write to")
	case len(c.Namespace) == 0:
		return errors.New("no namespace to play")
	case c.Raw && len(c.Tracks) == 0:
		return errors.New("raw mode needs the names of tracks")
	case c.Width < 0 || c.Height < 0:
		return errors.New("a display has no negative size")
	case c.Raw && c.Verify != nil:
		return errors.New("raw mode cannot verify")
	}
	return c.Namespace.Validate()
}

// publisherTimeout is how long to wait for a publisher that has left without ending its tracks.
func (c *PlayerConfig) publisherTimeout() time.Duration {
	return max(c.Wait, cmp.Or(c.Client.ReconnectTimeout, client.DefaultReconnectTimeout))
}

func (c PlayerConfig) withDefaults() PlayerConfig {
	c.Hold = cmp.Or(c.Hold, 2*time.Second)
	if c.Memory == nil {
		c.Memory = unbounded{}
	}
	c.Client.Logger = cmp.Or(c.Client.Logger, slog.Default())
	if len(c.Catalogs) == 0 {
		c.Catalogs = catalog.Names
	}
	return c
}

// Result counts played objects.
type Result struct {
	Tracks []TrackResult
	Media  time.Duration // from the first chunk to the end of the last one
}

// TrackResult counts played objects of a track.
type TrackResult struct {
	Name string
	Counters
	SHA256 string // of all payloads, one after the other
	Resets uint64 // streams that were reset
	// Switches counts how often another rendition went on.
	Switches int
	Err      error // why the track ended; nil: the publisher ended it

	// Verified, Different and Missing count chunks, if there was something to verify.
	Verified, Different, Missing int
}

// Verified reports whether every chunk that was received is as expected, and none is missing.
func (r *Result) Verified() bool {
	for _, t := range r.Tracks {
		if t.Different > 0 || t.Missing > 0 || t.Verified == 0 {
			return false
		}
	}
	return len(r.Tracks) > 0
}

// Objects returns the number of objects that were played.
func (r *Result) Objects() (n uint64) {
	for _, t := range r.Tracks {
		n += t.Objects
	}
	return n
}

// Bytes returns the size of the objects that were played.
func (r *Result) Bytes() (n uint64) {
	for _, t := range r.Tracks {
		n += t.Bytes
	}
	return n
}
