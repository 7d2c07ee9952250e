package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/internal/bounds"
	"sluice/moqt"
	"sluice/transport"
)

const (
	// maxMessage is the size of the largest message that is read. NATS carries 1 MiB by default.
	maxMessage = 256 << 10
	// maxPart is how many bytes of routes go into a part of a snapshot. The longest namespace has 12,319 bytes as text.
	maxPart = 128 << 10
	// maxURLLen bounds the URL of a node, and MaxFeeds the feeds that a beat lists.
	maxURLLen = 1024
	MaxFeeds  = 64
	// MaxPrice is the highest price of a node.
	MaxPrice = 10_000.0
)

// Card describes a node to the others.
type Card struct {
	URL    string  `json:"url"` // at which other nodes reach its relay
	Region string  `json:"region,omitempty"`
	Price  float64 `json:"price,omitempty"` // of asking it, as milliseconds of RTT
	Load   float64 `json:"load,omitempty"`  // 0 to 1
	Feeds  []Feed  `json:"feeds,omitempty"` // from other nodes, one for each
	// ClientURL is where clients reach the node, if it sends clients to other nodes and takes theirs.
	ClientURL string `json:"client_url,omitempty"`
}

// Feed is the tracks that a node gets from another, over one session or more.
type Feed struct {
	From   string        `json:"from"`             // the node that feeds
	RTT    time.Duration `json:"rtt_ns,omitempty"` // 0: not measured
	Tracks int           `json:"tracks"`
}

func (c *Card) validate() error {
	if err := CheckURL("url", c.URL); err != nil {
		return err
	}
	if c.ClientURL != "" {
		if err := CheckClientURL("client_url", c.ClientURL); err != nil {
			return err
		}
	}
	if c.Region != "" {
		if err := CheckName("region", c.Region); err != nil {
			return err
		}
	}
	return errors.Join(
		checkFeeds(c.Feeds),
		bounds.Check("price", c.Price, 0, MaxPrice),
		bounds.Check("load", c.Load, 0, 1))
}

// CheckURL returns an error if a URL cannot be a node's. It must not have a query, which may be a secret: all nodes
// know the URL, and show it.
func CheckURL(field, text string) error {
	if _, err := transport.ParseURL(text); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	if len(text) > maxURLLen || strings.Contains(text, "?") {
		return fmt.Errorf("%s: %s: must have at most %d bytes and no query", field, transport.WithoutQuery(text),
			maxURLLen)
	}
	return nil
}

// CheckClientURL returns an error if a URL cannot be a node's for clients. It must not have a path either: a client
// keeps the scheme and the path that it has used before.
func CheckClientURL(field, text string) error {
	if err := CheckURL(field, text); err != nil {
		return err
	}
	u, err := transport.ParseURL(text)
	if err != nil || u.Path != "" || u.Fragment.Type != "" {
		return fmt.Errorf("%s: %s: must have no path: each client keeps its own", field, transport.WithoutQuery(text))
	}
	return nil
}

func checkFeeds(feeds []Feed) error {
	if err := bounds.Check("number of feeds", len(feeds), 0, MaxFeeds); err != nil {
		return err
	}
	for i, f := range feeds {
		if err := CheckName("feeds", f.From); err != nil {
			return err
		}
		if slices.ContainsFunc(feeds[:i], func(o Feed) bool { return o.From == f.From }) {
			return fmt.Errorf("feeds: %s: must be listed once", f.From)
		}
	}
	return nil
}

// state is the state of a message's sender. All messages have it.
type state struct {
	Epoch   uint64 `json:"epoch"`   // when it joined
	Version uint64 `json:"version"` // of its routes; in a route, the version after it
}

// beat is the message that a node sends once a second.
type beat struct {
	state
	Card Card `json:"card"`
	New  bool `json:"new,omitempty"` // has just joined, and wants all snapshots
	// Withdrawn is the hash of the node's list of withdrawn tokens.
	Withdrawn uint64 `json:"withdrawn,omitempty"`
}

// changeMessage tells that a route has come or gone.
type changeMessage struct {
	state
	Namespace string `json:"namespace"` // as moqt.Namespace.String writes it
	Gone      bool   `json:"gone,omitempty"`
}

// part is a part of a snapshot. The parts of one come in order.
type part struct {
	beat
	Index  int      `json:"index"`
	Last   bool     `json:"last,omitempty"`
	Routes []string `json:"routes"`
}

func encode(m any) []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // all fields are plain values
	}
	return b
}

func decodeState(b []byte) (s state, err error) { return s, decode(b, &s) }

func decodeBeat(b []byte) (m beat, err error) {
	if err = decode(b, &m); err == nil {
		err = m.Card.validate()
	}
	return m, err
}

func decodeChange(b []byte) (m changeMessage, ns moqt.Namespace, err error) {
	if err = decode(b, &m); err == nil {
		ns, err = moqt.ParseNamespace(m.Namespace)
	}
	return m, ns, err
}

func decodePart(b []byte) (m part, err error) {
	if err = decode(b, &m); err == nil {
		err = m.Card.validate()
	}
	for _, text := range m.Routes {
		if err == nil {
			_, err = moqt.ParseNamespace(text)
		}
	}
	return m, err
}

func decode(b []byte, m any) error {
	if len(b) > maxMessage {
		return fmt.Errorf("message of %d bytes: must have at most %d", len(b), maxMessage)
	}
	return json.Unmarshal(b, m)
}
