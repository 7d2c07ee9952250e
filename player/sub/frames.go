package sub

import (
	"errors"
	"slices"
	"time"

	"sluice/moqt"
	"sluice/player/cmaf"
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

// headerLocked returns the init segment of all lanes. Lanes that have ended without a frame have none.
func (p *player) headerLocked() ([]byte, error) {
	var inits []*cmaf.Init
	original := !slices.ContainsFunc(p.lanes, func(l *lane) bool { return l.switched })
	if p.init != nil && original {
		inits = append(inits, p.init)
	}
	for _, l := range p.lanes {
		if l.frames == nil && original || l.waitsLocked() {
			continue
		}
		in, err := l.initAs(l.id)
		if err != nil {
			return nil, err
		}
		inits = append(inits, in)
	}
	if len(inits) == 0 {
		return nil, errors.New("no track has a frame that can be decoded")
	}
	in, err := cmaf.Join(inits...)
	if err != nil {
		return nil, err
	}
	return in.Data, nil
}

// outputLocked returns the output for a released candidate: after the init segment, if that has to wait for
// frames, its chunk. Times start with the first frame if no track has times of its own.
func (p *player) outputLocked(c *candidate) (out []byte, err error) {
	if !p.headed {
		p.headed = true
		if out, err = p.headerLocked(); err != nil {
			return nil, err
		}
	}
	f := c.lane.frames
	switch {
	case f == nil && c.lane.switched:
		chunk, err := c.lane.rewrite(c.item.payload)
		return append(out, chunk...), err
	case f == nil && out == nil:
		return c.item.payload, nil
	case f == nil:
		return append(out, c.item.payload...), nil
	}
	start := time.Duration(0)
	if p.init == nil {
		start = p.first
	}
	chunk, err := f.mux.Chunk(f.sample, start)
	f.prepared = false
	return append(out, chunk...), err
}
