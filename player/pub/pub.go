package pub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sluice/moqt"
	"sluice/player/catalog"
	"sluice/player/client"
)

// Packagings lists what PublisherConfig.Packaging can be.
var Packagings = []string{catalog.CMAF, catalog.LOC}

// PublisherConfig is the configuration of [Run]. Namespace and Open are required. The zero value of any other field is
// its default.
type PublisherConfig struct {
	Namespace moqt.Namespace

	// Open opens the input, fragmented MP4. With Loop it is called again for each round.
	Open func() (io.ReadCloser, error)
	// Renditions open further inputs with the same content in other qualities: the tracks of a kind that several inputs
	// have are an alternate group, and groups start together.
	Renditions []func() (io.ReadCloser, error)
	// Ladder is set if the video tracks of an input have the same content, as an Encoder's do.
	Ladder bool
	// Loop publishes the input again and again, with media times that continue.
	Loop bool
	// Unpaced publishes as fast as the input can be read, instead of at the speed of its decode times.
	Unpaced bool

	// Packaging is how objects hold media: [catalog.CMAF], the default, with a chunk in each object, or [catalog.LOC]
	// with a frame in each.
	Packaging string
	// Priorities are the priorities of subgroups. Default: [DefaultPriorities].
	Priorities Priorities
	// ObjectTimeout and SubgroupTimeout are the delivery timeouts of media tracks (draft §8). Default: none.
	ObjectTimeout, SubgroupTimeout time.Duration
	// History bounds what tracks keep for FETCH.
	History History

	// Datagrams sends audio in datagrams, which are not retransmitted. Chunks that are too large for a datagram go on
	// streams.
	Datagrams bool

	// Publish offers each track with PUBLISH, besides the namespace with PUBLISH_NAMESPACE.
	Publish bool
	// Wait delays the input until the first subscription to a media track.
	Wait bool
	// Wanted is called for each request for a media track, before the answer to it, but not with Publish. It may wait
	// until an input that has paused has been read up to date. The context is done when the request has ended.
	// Default: inputs do not pause.
	Wanted func(context.Context)
	// FirstGroup is the id of the first group. Default: the milliseconds since 1970. Groups of live media last longer
	// than a millisecond, so a publisher that starts again has larger ids than before, unless the clock was set back
	// (draft-ietf-moq-msf, Group numbering).
	FirstGroup *uint64

	Client client.SessionConfig
}

func (c *PublisherConfig) validate() error {
	switch {
	case c.Open == nil:
		return errors.New("no input to publish")
	case len(c.Namespace) == 0:
		return errors.New("no namespace to publish in")
	case !slices.Contains(Packagings, c.Packaging) && c.Packaging != "":
		return fmt.Errorf("packaging %q: must be one of %s", c.Packaging, strings.Join(Packagings, ", "))
	}
	return c.Namespace.Validate()
}

func (c PublisherConfig) withDefaults() PublisherConfig {
	c.Packaging = cmp.Or(c.Packaging, catalog.CMAF)
	c.Priorities = cmp.Or(c.Priorities, DefaultPriorities(c.Packaging))
	c.FirstGroup = cmp.Or(c.FirstGroup, new(uint64(time.Now().UnixMilli())))
	c.Client.Logger = cmp.Or(c.Client.Logger, slog.Default())
	return c
}

// InputError is the error of an input that cannot be published.
type InputError struct{ Err error }

func (e *InputError) Error() string { return fmt.Sprintf("input: %v", e.Err) }

// Unwrap returns the cause.
func (e *InputError) Unwrap() error { return e.Err }

// Stats counts published objects. It may be read at any time.
type Stats struct {
	objects, bytes       atomic.Uint64
	media, subscriptions atomic.Int64
}

func (s *Stats) published(until time.Duration, bytes int) {
	s.objects.Add(1)
	s.bytes.Add(uint64(bytes))
	s.media.Store(max(s.media.Load(), int64(until)))
}

// Objects returns the number of media objects.
func (s *Stats) Objects() uint64 { return s.objects.Load() }

// Bytes returns the number of bytes in the payloads of all media objects.
func (s *Stats) Bytes() uint64 { return s.bytes.Load() }

// Subscriptions returns the number of subscriptions to tracks of the broadcast.
func (s *Stats) Subscriptions() int { return int(s.subscriptions.Load()) }

// Media returns the media time until which the broadcast was published.
func (s *Stats) Media() time.Duration { return time.Duration(s.media.Load()) }
