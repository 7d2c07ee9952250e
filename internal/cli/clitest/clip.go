package clitest

import (
	"bytes"
	"io"
	"os"
	"time"

	"sluice/player/cmaf"
)

// CutClip returns the init segment of the sample clip and then its chunks that start before end. If the clip is
// shorter, it is repeated, with times that continue.
func CutClip(end time.Duration) (parts [][]byte, err error) {
	const period = 10040 * time.Millisecond // between two beginnings
	clip, err := os.ReadFile(Path("testdata/clip.mp4"))
	if err != nil {
		return nil, err
	}
	for start := time.Duration(0); start < end; start += period {
		reader := cmaf.NewReader(bytes.NewReader(clip))
		init, err := reader.Init()
		if err != nil {
			return nil, err
		}
		if start == 0 {
			parts = append(parts, init.Data)
		}
		for c, err := reader.Next(); err != io.EOF; c, err = reader.Next() {
			if err != nil {
				return nil, err
			}
			track := init.Track(c.Track)
			if start > 0 {
				c = c.Later(track.Ticks(start), uint32(len(parts)))
			}
			if c.DecodeTime < track.Ticks(end) {
				parts = append(parts, c.Data)
			}
		}
	}
	return parts, nil
}
