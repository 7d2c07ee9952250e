package sub

import (
	"cmp"
	"errors"
	"io"
	"log/slog"
	"time"

	"sluice/internal/catalog"
	"sluice/internal/client"
	"sluice/moqt"
)

// Config is the configuration of [Run]. Namespace and Out are required; the zero value of all else is the default.
type Config struct {
	Namespace moqt.Namespace
	// Out gets the media, fragmented MP4, or with Raw a line of text for each object.
	Out io.Writer

	// Tracks are the names or roles ("video", "audio") of those to play. Default: all, but one of each alternate group.
	Tracks []string
	// Catalogs are the names of tracks that may have the catalog, in the order in which they are tried.
	Catalogs []string
	// Raw lists the objects of Tracks instead of playing them. There is no need for a catalog then.
	Raw bool
	// Join is how many groups before the current one playback starts.
	Join uint64
	// Duration of media after which playback ends, and number of Objects. Default: neither.
	Duration time.Duration
	Objects  uint64
	// Hold is how long to wait for an object that is missing while later ones are there. Default: 2 s.
	Hold time.Duration
	// Wait is how long to wait for a publisher, if there is none yet. Default: not at all. When playback is
	// interrupted, a publisher has at least as long to come back as a relay, Client.Patience.
	Wait time.Duration
	// Verify is a file whose chunks the broadcast has to have. Its end has to be reached, unless a limit ends playback.
	Verify io.Reader

	Client client.Config
}

func (c *Config) validate() error {
	switch {
	case c.Out == nil:
		return errors.New("no output to write to")
	case len(c.Namespace) == 0:
		return errors.New("no namespace to play")
	case c.Raw && len(c.Tracks) == 0:
		return errors.New("raw mode needs the names of tracks")
	case c.Raw && c.Verify != nil:
		return errors.New("raw mode cannot verify")
	}
	return c.Namespace.Validate()
}

// patience is how long to wait for a publisher that has left without ending its tracks.
func (c *Config) patience() time.Duration {
	return max(c.Wait, cmp.Or(c.Client.ReconnectTimeout, client.DefaultReconnectTimeout))
}

func (c Config) withDefaults() Config {
	c.Hold = cmp.Or(c.Hold, 2*time.Second)
	c.Client.Logger = cmp.Or(c.Client.Logger, slog.Default())
	if len(c.Catalogs) == 0 {
		c.Catalogs = []string{catalog.CommonName, catalog.MSFName}
	}
	return c
}

// Result is what was played.
type Result struct {
	Tracks []TrackResult
	Media  time.Duration // from the first chunk to the end of the last one
}

// TrackResult is what was played of a track.
type TrackResult struct {
	Name string
	Counters
	SHA256 string // of all payloads, one after the other
	Resets uint64 // streams that were reset
	Err    error  // why the track ended, if it did not end well

	// Verified, Different and Missing count chunks, if there was something to verify.
	Verified, Different, Missing int
}

// Verified reports whether all that was received is what was expected, and nothing is missing.
func (r *Result) Verified() bool {
	for _, t := range r.Tracks {
		if t.Different > 0 || t.Missing > 0 || t.Verified == 0 {
			return false
		}
	}
	return len(r.Tracks) > 0
}

// Objects is the number of objects that were played.
func (r *Result) Objects() (n uint64) {
	for _, t := range r.Tracks {
		n += t.Objects
	}
	return n
}

// Bytes is their size.
func (r *Result) Bytes() (n uint64) {
	for _, t := range r.Tracks {
		n += t.Bytes
	}
	return n
}
