package video

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"time"

	"sluice/internal/cmaf"
	"sluice/moqt"
)

// Clip is the first video track of a file, chunk by chunk, over and over.
type Clip struct {
	frames   []clipFrame
	groups   uint64
	duration time.Duration // of one round
}

type clipFrame struct {
	at   moqt.Location // in the first round
	due  time.Duration
	data []byte
	sum  uint32 // CRC-32C
}

var (
	// ErrNotOfClip means that an object is not the chunk that belongs in its place.
	ErrNotOfClip = errors.New("the object is not the chunk of the clip that belongs there")

	errNoVideo = errors.New("the clip has no video track that begins with a key frame")
)

// OpenClip reads a clip from a fragmented MP4 file.
func OpenClip(path string) (*Clip, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c, err := readClip(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func readClip(r io.Reader) (*Clip, error) {
	reader := cmaf.NewReader(r)
	in, err := reader.Init()
	if err != nil {
		return nil, err
	}
	var track *cmaf.TrackInfo
	for i := range in.Tracks {
		if in.Tracks[i].Kind == cmaf.Video && track == nil {
			track = &in.Tracks[i]
		}
	}
	if track == nil {
		return nil, errNoVideo
	}
	c := new(Clip)
	for {
		chunk, err := reader.Next()
		switch {
		case err == io.EOF && len(c.frames) == 0:
			return nil, errNoVideo
		case err == io.EOF:
			return c, nil
		case err != nil:
			return nil, err
		case chunk.Track != track.ID:
		case len(c.frames) == 0 && !chunk.Sync:
			return nil, errNoVideo
		default:
			c.add(chunk, track)
		}
	}
}

func (c *Clip) add(chunk cmaf.Chunk, track *cmaf.TrackInfo) {
	f := clipFrame{due: track.Time(chunk.DecodeTime), data: chunk.Data, sum: crc32.Checksum(chunk.Data, castagnoli)}
	if chunk.Sync {
		f.at.Group = c.groups
		c.groups++
	} else {
		last := c.frames[len(c.frames)-1].at
		f.at = moqt.Location{Group: last.Group, Object: last.Object + 1}
	}
	c.frames = append(c.frames, f)
	c.duration = track.Time(chunk.DecodeTime + chunk.Duration)
}

// Frame implements [Source].
func (c *Clip) Frame(n uint64) Frame {
	round, f := n/uint64(len(c.frames)), c.frames[n%uint64(len(c.frames))]
	return Frame{
		Location: moqt.Location{Group: f.at.Group + round*c.groups, Object: f.at.Object},
		Due:      f.due - c.frames[0].due + time.Duration(round)*(c.duration-c.frames[0].due),
		Priority: priority(LayerKey),
	}
}

// Payload implements [Source].
func (c *Clip) Payload(n uint64, _ time.Time) []byte { return c.frames[n%uint64(len(c.frames))].data }

// Verify implements [Source]. The objects of a clip hold no time of publication.
func (c *Clip) Verify(at moqt.Location, d *Digest) (time.Time, error) {
	at.Group %= c.groups
	for _, f := range c.frames { // a few hundred
		if f.at == at && len(f.data) == d.size && f.sum == d.sum {
			return time.Time{}, nil
		}
	}
	return time.Time{}, ErrNotOfClip
}
