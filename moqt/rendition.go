package moqt

// This file is the wire format of an extension of Sluice, by which a relay chooses among renditions for a subscriber:
// see docs/moqt.md.

// OptionRenditions is the setup option of a relay that takes RENDITION in SUBSCRIBE.
const OptionRenditions uint64 = 0x511ce2

// Rendition says that the track of a SUBSCRIBE is one of several renditions of one content. Of the subscriptions of a
// session with the same set, the relay serves one at a time, and changes it where groups start.
type Rendition struct {
	Set     uint64 // a number that the subscriber has chosen
	Bitrate uint64 // of the track, in bits per second
}

func (e *encoder) rendition(r Rendition) {
	e.varint(r.Set)
	e.varint(r.Bitrate)
}

func (d *decoder) rendition() Rendition { return Rendition{Set: d.varint(), Bitrate: d.varint()} }
