package sub

import (
	"bytes"
	"fmt"
	"io"

	"sluice/player/cmaf"
)

// verifier compares the chunks of a track with the chunks of a file, byte by byte.
type verifier struct {
	init    *cmaf.Init
	want    [][]byte
	next    int // in want
	same    int
	differ  int // chunks that the file does not have, or has in another place
	missing int // chunks of the file that were skipped
	begun   bool
}

// newVerifiers reads the chunks of all tracks of a file.
func newVerifiers(r io.Reader) (map[uint32]*verifier, error) {
	tracks := map[uint32]*verifier{}
	reader := cmaf.NewReader(r)
	for {
		c, err := reader.Next()
		if err == io.EOF {
			return tracks, nil
		}
		if err != nil {
			return nil, fmt.Errorf("file to verify against: %w", err)
		}
		v := tracks[c.Track]
		if v == nil {
			v = &verifier{}
			v.init, _ = reader.Init() // Next has read it
			tracks[c.Track] = v
		}
		v.want = append(v.want, c.Data)
	}
}

// useFrames makes v compare the frames of the chunks, for a track without a container.
func (v *verifier) useFrames() error {
	chunks := v.want
	v.want = nil
	for _, c := range chunks {
		samples, err := v.init.Samples(c)
		if err != nil {
			return fmt.Errorf("file to verify against: %w", err)
		}
		for _, s := range samples {
			v.want = append(v.want, s.Data)
		}
	}
	return nil
}

// add compares the next chunk that was received. Playback may have joined the broadcast at any chunk.
func (v *verifier) add(chunk []byte) {
	for at := v.next; at < len(v.want); at++ {
		if bytes.Equal(v.want[at], chunk) {
			if v.begun {
				v.missing += at - v.next
			}
			v.begun, v.next = true, at+1
			v.same++
			return
		}
	}
	v.differ++
}

// finish counts the rest of the file as missing. It is called if playback reached the end of the broadcast.
func (v *verifier) finish() {
	v.missing += len(v.want) - v.next
	v.next = len(v.want)
}
