package cmaf

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
)

// ErrNotFragmented is the error of an MP4 file whose media is not in moof boxes, or of input that is not MP4.
var ErrNotFragmented = errors.New("not fragmented MP4; make it with\n" +
	"  ffmpeg -i INPUT -c copy -movflags +frag_keyframe+empty_moov+default_base_moof -f mp4 OUTPUT\n" +
	"or, for one frame in each object, with\n" +
	"  ffmpeg -i INPUT -c copy -movflags +cmaf+separate_moof -frag_duration 1 -f mp4 OUTPUT")

// Reader reads a file or a live stream box by box, and holds at most the chunks of one moof box.
type Reader struct {
	r     *bufio.Reader
	at    uint64 // position in the stream
	init  *Init
	queue []Chunk
}

// NewReader returns a Reader that takes its input from r.
func NewReader(r io.Reader) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 64<<10)}
}

// Init returns the init segment. The first call reads it.
func (r *Reader) Init() (*Init, error) {
	if r.init != nil {
		return r.init, nil
	}
	var data []byte
	for {
		h, err := r.header()
		if err == io.EOF {
			return nil, fmt.Errorf("no moov box: %w", ErrNotFragmented)
		}
		if err != nil {
			return nil, err
		}
		switch h.typ {
		case "ftyp", "moov":
			b, err := r.read(h, MaxHeaderSize)
			if err != nil {
				return nil, err
			}
			data = append(data, b...)
		case "mdat", "moof":
			return nil, fmt.Errorf("%s box before the moov box: %w", h.typ, ErrNotFragmented)
		default:
			if err := r.skip(h); err != nil {
				return nil, err
			}
		}
		if h.typ == "moov" {
			return r.setInit(data)
		}
	}
}

func (r *Reader) setInit(data []byte) (*Init, error) {
	in, err := ParseInit(data)
	if err != nil {
		return nil, err
	}
	if find(data, "moov", "mvex") == nil {
		return nil, ErrNotFragmented
	}
	r.init = in
	return in, nil
}

// Next returns the next chunk, io.EOF after the last one, and io.ErrUnexpectedEOF if the stream ends inside a chunk. A
// moof box with several tracks becomes one chunk for each, and chunks that address their media by its position in the
// file are rewritten to address it from their moof box; all others are returned byte for byte.
func (r *Reader) Next() (Chunk, error) {
	if _, err := r.Init(); err != nil {
		return Chunk{}, err
	}
	for len(r.queue) == 0 {
		h, err := r.header()
		if err != nil {
			return Chunk{}, err
		}
		switch h.typ {
		case "moof":
			err = r.fragment(h)
		case "mdat":
			err = fmt.Errorf("at byte %d: mdat box without a moof box", r.at)
		case "moov", "ftyp":
			err = r.again(h)
		default:
			err = r.skip(h)
		}
		if err != nil {
			return Chunk{}, err
		}
	}
	c := r.queue[0]
	r.queue = r.queue[1:]
	return c, nil
}

// again skips a repetition of the init segment. A different init segment is an error: it would need new tracks.
func (r *Reader) again(h header) error {
	b, err := r.read(h, MaxHeaderSize)
	if err == nil && h.typ == "moov" && !bytes.HasSuffix(r.init.Data, b) {
		return fmt.Errorf("at byte %d: the init segment changes; publish the rest as a broadcast of its own", r.at)
	}
	return err
}

// fragment reads a moof box and the mdat box that follows it, and queues their chunks.
func (r *Reader) fragment(h header) error {
	position := r.at - uint64(len(h.raw))
	moof, err := r.read(h, MaxHeaderSize)
	if err != nil {
		return err
	}
	frags, err := r.init.parseMoof(moof[len(h.raw):])
	if err != nil {
		return fmt.Errorf("at byte %d: %w", position, err)
	}
	mdat, err := r.mdat()
	if err != nil {
		return fmt.Errorf("at byte %d: %w", position, err)
	}
	if len(frags) == 1 && !frags[0].base.absolute {
		r.queue = append(r.queue, frags[0].chunk(append(moof, mdat...)))
		return nil
	}
	chunks, err := split(moof, mdat, position, frags)
	if err != nil {
		return fmt.Errorf("at byte %d: %w", position, err)
	}
	r.queue = append(r.queue, chunks...)
	return nil
}

func (r *Reader) mdat() ([]byte, error) {
	for {
		h, err := r.header()
		if err != nil {
			return nil, noEOF(err)
		}
		switch h.typ {
		case "mdat":
			return r.read(h, MaxMediaSize)
		case "moof":
			return nil, errors.New("moof box without an mdat box")
		}
		if err := r.skip(h); err != nil {
			return nil, err
		}
	}
}

func (f *fragment) chunk(data []byte) Chunk {
	return Chunk{
		Track: f.track, DecodeTime: f.decodeTime, Duration: f.duration, Samples: f.samples, Sync: f.sync, Data: data,
	}
}

func (r *Reader) header() (header, error) {
	h, err := readHeader(r.r)
	switch {
	case err == io.EOF:
		return h, io.EOF
	case err != nil:
		return h, fmt.Errorf("at byte %d: %w", r.at, err)
	case r.at == 0 && !slices.Contains(firstTypes, h.typ):
		return h, ErrNotFragmented
	}
	r.at += uint64(len(h.raw))
	return h, nil
}

// firstTypes are the types of boxes with which MP4 files and streams start.
var firstTypes = []string{
	"ftyp", "moov", "styp", "sidx", "emsg", "prft", "free", "skip", "wide", "uuid", "pdin", "mdat", "moof",
}

func (r *Reader) read(h header, limit uint64) ([]byte, error) {
	b, err := h.readRest(r.r, limit)
	if err != nil {
		return nil, fmt.Errorf("at byte %d: box %q: %w", r.at, h.typ, err)
	}
	r.at += h.size - uint64(len(h.raw))
	return b, nil
}

func (r *Reader) skip(h header) error {
	if err := h.skip(r.r); err != nil {
		return fmt.Errorf("at byte %d: box %q: %w", r.at, h.typ, err)
	}
	r.at += h.size - uint64(len(h.raw))
	return nil
}
