package charge

import (
	"cmp"
	"errors"
	"time"

	"sluice/internal/bounds"
)

// Quota limits what the sessions of one account use together: see the Config of package relay. In each
// field 0 is the default, and a negative number is no limit.
type Quota struct {
	// Sessions is how many sessions may be open.
	Sessions int
	// Tracks is how many tracks may exist because of requests of the account. A track exists while it is published,
	// wanted or cached.
	Tracks int
	// Namespaces is how many PUBLISH_NAMESPACE, SUBSCRIBE_NAMESPACE and SUBSCRIBE_TRACKS requests may be open.
	Namespaces int
	// Subscriptions is how many subscriptions may be open, of publishers and of subscribers together.
	Subscriptions int
	// Requests is how many requests of any kind may be open.
	Requests int
	// Streams is how many streams of subgroups to subscribers may be open, or wait until they are, beyond 8 of each
	// subscription.
	Streams int
	// RequestRate is how many requests may come per second; those of an address include updates.
	RequestRate int
	// Upload is how many bits per second publishers may send, and Download how many subscribers may receive.
	Upload, Download int
}

const (
	// MinBitRate is the smallest quota of bits per second: with less, a single video frame exceeds Burst.
	MinBitRate = 100_000
	// MaxBitRate is the largest one: more than any network card.
	MaxBitRate = 10_000_000_000_000
	// Burst is how long a rate may be exceeded after a pause: viewers begin with many requests and with buffered
	// media, and a key frame is much larger than the average frame.
	Burst = 5 * time.Second
	// Retry is what a peer is told to wait before it repeats a request that exceeded a quota.
	Retry = 5 * time.Second
)

// PerAddress hold for a source address, behind which there may be many viewers: the NAT of a school, a venue or
// a mobile network. An address may use a sixteenth of the default MaxSessions, MaxTracks and MaxRequests, so that a few
// addresses cannot keep all others out. 8 subscriptions are enough for the tracks of a broadcast, and 1 Gbit/s for 200
// viewers of 5 Mbit/s. An audio track may have a group for each frame, 50 a second: 1,000 viewers whose network is away
// for 5 s have as many streams as an address may have.
var PerAddress = Quota{
	Sessions:      1024,
	Tracks:        4096,
	Namespaces:    1024,
	Subscriptions: 8192,
	Requests:      8192,
	Streams:       262_144,
	RequestRate:   1000,
	Upload:        250_000_000,
	Download:      1_000_000_000,
}

// PerToken hold for a token. A whole audience may share a token, so nothing is limited that viewers use.
var PerToken = Quota{
	Sessions:      -1,
	Tracks:        16_384,
	Namespaces:    1024,
	Subscriptions: -1,
	Requests:      -1,
	Streams:       -1,
	RequestRate:   -1,
	Upload:        1_000_000_000,
	Download:      -1,
}

// Resource is what a quota limits.
type Resource uint8

// Resources. Those up to StreamsOpen are counted, the others are rates.
const (
	SessionsOpen Resource = iota
	TracksHeld
	NamespacesOpen
	SubscriptionsOpen
	RequestsOpen
	StreamsOpen
	RequestRate
	UploadRate
	DownloadRate
	resources
)

const counted = StreamsOpen + 1

var resourceNames = [resources]string{
	"sessions", "tracks", "namespaces", "subscriptions", "requests", "streams", "request-rate", "upload", "download",
}

func (r Resource) String() string { return resourceNames[r] }

// QuotaNames are the names of the fields of a Quota, in flags and metrics.
func QuotaNames() []string { return resourceNames[:] }

// Field returns the field with a name of QuotaNames, or nil.
func (q *Quota) Field(name string) *int {
	for r, n := range resourceNames {
		if n == name {
			return q.field(Resource(r))
		}
	}
	return nil
}

func (q *Quota) field(r Resource) *int {
	return [resources]*int{
		&q.Sessions, &q.Tracks, &q.Namespaces, &q.Subscriptions, &q.Requests, &q.Streams, &q.RequestRate, &q.Upload,
		&q.Download,
	}[r]
}

func (q Quota) WithDefaults(d Quota) Quota {
	for r := range resources {
		*q.field(r) = cmp.Or(*q.field(r), *d.field(r))
	}
	return q
}

// Validate checks a quota. name is the flag or field that it comes from.
func (q Quota) Validate(name string) error {
	var errs []error
	for _, r := range []Resource{UploadRate, DownloadRate} {
		if v := *q.field(r); v > 0 {
			errs = append(errs, bounds.Check(name+": "+r.String(), v, MinBitRate, MaxBitRate))
		}
	}
	return errors.Join(errs...)
}
