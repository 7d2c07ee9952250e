package bench

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

// clip is the first video track of a file, chunk by chunk, again and again.
type clip struct {
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
	errNoVideo   = errors.New("the clip has no video track that begins with a key frame")
	errNotOfClip = errors.New("the object is not the chunk of the clip that belongs there")
)

func openClip(path string) (*clip, error) {
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

func readClip(r io.Reader) (*clip, error) {
	reader := cmaf.NewReader(r)
	in, err := reader.Init()
	if err != nil {
		return nil, err
	}
	var track *cmaf.Track
	for i := range in.Tracks {
		if in.Tracks[i].Kind == cmaf.Video && track == nil {
			track = &in.Tracks[i]
		}
	}
	if track == nil {
		return nil, errNoVideo
	}
	c := new(clip)
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

func (c *clip) add(chunk cmaf.Chunk, track *cmaf.Track) {
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

// frame implements media.
func (c *clip) frame(n uint64) frame {
	round, f := n/uint64(len(c.frames)), c.frames[n%uint64(len(c.frames))]
	return frame{
		at:  moqt.Location{Group: f.at.Group + round*c.groups, Object: f.at.Object},
		due: f.due - c.frames[0].due + time.Duration(round)*(c.duration-c.frames[0].due),
	}
}

// payload implements media.
func (c *clip) payload(n uint64, _ time.Time) []byte { return c.frames[n%uint64(len(c.frames))].data }

// verify implements media. A clip does not say when it was published.
func (c *clip) verify(at moqt.Location, d *digest) (time.Time, error) {
	at.Group %= c.groups
	for _, f := range c.frames { // a few hundred
		if f.at == at && len(f.data) == d.size && f.sum == d.sum {
			return time.Time{}, nil
		}
	}
	return time.Time{}, errNotOfClip
}
