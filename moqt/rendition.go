package moqt

// This file is the wire format of an extension of Sluice, by which a relay chooses among renditions for a subscriber:
// see docs/moqt.md.

// OptionRenditions is the setup option of a relay that takes RENDITION in SUBSCRIBE, and PLAYBACK in REQUEST_UPDATE.
const OptionRenditions uint64 = 0x511ce2

// renditionsVersion is the value of OptionRenditions. Peers with another value have other parameters.
const renditionsVersion uint64 = 2

// Rendition says that the track of a SUBSCRIBE is one of several renditions of one content. Of the subscriptions of a
// session with the same set, the relay serves one at a time, and changes it where groups start.
type Rendition struct {
	Set           uint64 // a number that the subscriber has chosen
	Bitrate       uint64 // of the track, in bits per second
	Width, Height uint64 // of its pictures; 0: not known
}

func (r *Rendition) fields(c *coder) { c.varints(&r.Set, &r.Bitrate, &r.Width, &r.Height) }

// Playback is what a player tells the relay about itself: in an update of the subscription to any rendition of a set,
// for all of them.
type Playback struct {
	Buffered      uint64 // milliseconds of media that wait to be shown, plus 1; 0: not known
	Dropped       uint64 // frames that were not shown, as they were decoded too late; counted since it began
	Width, Height uint64 // of the display, in pixels; 0: not known
}

func (p *Playback) fields(c *coder) { c.varints(&p.Buffered, &p.Dropped, &p.Width, &p.Height) }
