package rtsp

import (
	"cmp"
	"errors"
	"net/url"
	"strconv"

	"sluice/moqt"
	"sluice/player/sub"
)

// choice is which rendition of a MoQ broadcast a player wants: in its URL, ?rendition=720p&max-bitrate=2000. The zero
// choice is the best one.
type choice struct {
	rendition  string // as in sub.PlayerConfig; "": the best one
	maxBitrate int    // in kbit/s; 0: none
}

// downlinkKey is the choice of players that share a downlink.
type downlinkKey struct {
	namespace string
	choice
}

// maxBitrate is more than any broadcast has, in kbit/s.
const maxBitrate = 1_000_000

// maxChoices is how many downlinks with a choice may have begun for one source. One broadcast can be had with any
// number of bitrates, so that one client could use up MaxBroadcasts.
const maxChoices = 64

var (
	errChoice = errors.New("rendition must be a name, a height such as 720p, best or least; " +
		"max-bitrate must be a number of kbit/s")
	errTooManyChoices = errors.New("clients of this address play too many renditions: choose one that is played")
)

// readChoice returns the choice in a query. A player cannot follow changes between renditions.
func readChoice(query string) (c choice, err error) {
	values, _ := url.ParseQuery(query) // the readable part
	c.rendition = values.Get("rendition")
	if c.rendition == sub.RenditionRelay {
		return choice{}, errChoice
	}
	if c.rendition == sub.RenditionBest {
		c.rendition = ""
	}
	if text := values.Get("max-bitrate"); text != "" {
		c.maxBitrate, err = strconv.Atoi(text)
		if err != nil || c.maxBitrate < 1 || c.maxBitrate > maxBitrate {
			return choice{}, errChoice
		}
	}
	return c, nil
}

// apply has a player of package sub play the choice.
func (c choice) apply(cfg *sub.PlayerConfig) {
	cfg.Rendition, cfg.MaxBitrate = cmp.Or(c.rendition, sub.RenditionBest), c.maxBitrate*1000
}

// keyOf returns the key of a choice of a broadcast.
func keyOf(ns moqt.Namespace, c choice) downlinkKey { return downlinkKey{ns.String(), c} }
