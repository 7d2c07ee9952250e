package pub

import (
	"errors"
	"fmt"
	"io"
	"time"

	"sluice/player/cmaf"
)

// source is one pass over all inputs, as if they were one file: their tracks have different ids, and their chunks come
// by decode time.
type source struct {
	inputs []*input
	init   *cmaf.Init
	ladder bool // the video tracks of an input have the same content
}

// input is one pass over one input.
type input struct {
	*cmaf.Reader
	io.Closer
	init *cmaf.Init
	ids  map[uint32]uint32 // new ids of tracks whose id an earlier input has
	next *cmaf.Chunk       // read, but not returned; nil: there is none, for the reason err
	err  error
}

// openSource opens the inputs and reads their init segments.
func openSource(cfg *PublisherConfig) (s *source, err error) {
	s = &source{ladder: cfg.Ladder}
	defer func() {
		if err != nil {
			_ = s.Close() // err is the cause
			s = nil
		}
	}()
	taken := map[uint32]bool{}
	var inits []*cmaf.Init
	for i, open := range append([]func() (io.ReadCloser, error){cfg.Open}, cfg.Renditions...) {
		in, err := openInput(open, taken)
		if err != nil {
			if i > 0 {
				err = fmt.Errorf("rendition %d: %w", i+1, err)
			}
			return s, &InputError{err}
		}
		s.inputs, inits = append(s.inputs, in), append(inits, in.init)
	}
	if s.init = inits[0]; len(inits) > 1 {
		if s.init, err = cmaf.Join(inits...); err != nil {
			return s, &InputError{err}
		}
	}
	return s, nil
}

func openInput(open func() (io.ReadCloser, error), taken map[uint32]bool) (*input, error) {
	file, err := open()
	if err != nil {
		return nil, err
	}
	in := &input{Reader: cmaf.NewReader(file), Closer: file, ids: map[uint32]uint32{}}
	if in.init, err = in.Init(); err == nil {
		err = in.number(taken)
	}
	if err != nil {
		_ = file.Close() // err is the cause
		return nil, err
	}
	return in, nil
}

// number gives each track an id that no earlier input has.
func (in *input) number(taken map[uint32]bool) (err error) {
	for _, t := range in.init.Tracks {
		id := t.ID
		for taken[id] || id != t.ID && in.init.Track(id) != nil {
			id++
		}
		if taken[id] = true; id != t.ID {
			in.ids[t.ID] = id
		}
	}
	if len(in.ids) > 0 {
		in.init, err = in.init.Renumber(in.ids)
	}
	return err
}

// peek returns the next chunk, or nil after the last one.
func (in *input) peek() *cmaf.Chunk {
	if in.next == nil && in.err == nil {
		var c cmaf.Chunk
		if c, in.err = in.Reader.Next(); in.err == nil {
			if id, ok := in.ids[c.Track]; ok {
				c = c.WithTrack(id)
			}
			in.next = &c
		}
	}
	return in.next
}

// Next returns the chunk with the least decode time of all inputs, of earlier inputs first. It returns io.EOF after the
// last one, and the error of the first input that has one.
func (s *source) Next() (cmaf.Chunk, error) {
	var best *input
	var least time.Duration
	for _, in := range s.inputs {
		c := in.peek()
		if c == nil {
			if in.err != io.EOF {
				return cmaf.Chunk{}, in.err
			}
			continue
		}
		if at := s.init.Track(c.Track).Time(c.DecodeTime); best == nil || at < least {
			best, least = in, at
		}
	}
	if best == nil {
		return cmaf.Chunk{}, io.EOF
	}
	c := *best.next
	best.next = nil
	return c, nil
}

// Close closes all inputs.
func (s *source) Close() error {
	var errs []error
	for _, in := range s.inputs {
		errs = append(errs, in.Close())
	}
	return errors.Join(errs...)
}

// alternatives returns the alternate group of each track that other inputs have, too: tracks of the same kind are the
// same content in other qualities. The video tracks of a ladder are, too.
func (s *source) alternatives() map[uint32]int {
	groups := map[cmaf.Kind]int{cmaf.Video: 1, cmaf.Audio: 2}
	having := map[cmaf.Kind]int{}
	for _, in := range s.inputs {
		kinds := map[cmaf.Kind]bool{}
		for _, t := range in.init.Tracks {
			if !kinds[t.Kind] || s.ladder && t.Kind == cmaf.Video {
				having[t.Kind]++
			}
			kinds[t.Kind] = true
		}
	}
	alternatives := map[uint32]int{}
	for _, t := range s.init.Tracks {
		if having[t.Kind] > 1 && groups[t.Kind] > 0 {
			alternatives[t.ID] = groups[t.Kind]
		}
	}
	return alternatives
}
