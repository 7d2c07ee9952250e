package sub

import (
	"sluice/moqt"
	"sluice/player/loc"
)

// frames makes chunks of the objects of a lane whose track has no container. The player's mutex guards it.
type frames struct {
	packaging string
	mux       *loc.Muxer

	at       moqt.Location // of the object that sample was made of
	sample   loc.Sample
	prepared bool // there is a sample
}

// prepare makes the sample of an object, once. It returns false if the object cannot be decoded.
func (f *frames) prepare(i item) bool {
	if f.prepared && f.at == i.location {
		return true
	}
	frame, err := loc.Parse(f.packaging, i.properties, i.payload)
	if err != nil {
		return false
	}
	f.at = i.location
	f.sample, f.prepared = f.mux.Add(frame)
	return f.prepared
}
