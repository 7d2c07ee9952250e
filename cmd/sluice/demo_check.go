package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"sluice/cmaf"
)

// source is the media that the demo publishes.
type source struct {
	chunks   map[uint32][][]byte // by track
	count    int
	bytes    uint64
	duration time.Duration
}

func openSource(path string) (*source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := &source{chunks: make(map[uint32][][]byte)}
	reader := cmaf.NewReader(f)
	in, err := reader.Init()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	scale := make(map[uint32]uint64)
	for _, t := range in.Tracks {
		scale[t.ID] = uint64(t.Timescale)
	}
	for {
		c, err := reader.Next()
		if err == io.EOF {
			return s, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		s.chunks[c.Track] = append(s.chunks[c.Track], c.Data)
		s.count++
		s.bytes += uint64(len(c.Data))
		end := time.Duration(float64(c.DecodeTime+c.Duration) / float64(scale[c.Track]) * float64(time.Second))
		s.duration = max(s.duration, end)
	}
}

// checker compares the media that a subscriber plays with the source, chunk by chunk.
type checker struct {
	want *source
	in   *io.PipeWriter // takes the media
	done chan struct{}

	mu       sync.Mutex
	received received
	next     map[uint32]int // chunks that have come, by track
}

// received is how much a subscriber has received.
type received struct {
	objects int
	bytes   uint64
	err     error // the first difference, at the end
}

func newChecker(want *source) *checker {
	out, in := io.Pipe()
	c := &checker{want: want, in: in, done: make(chan struct{}), next: make(map[uint32]int)}
	go func() {
		defer close(c.done)
		err := c.read(out)
		io.Copy(io.Discard, out) // whoever writes must not wait for a reader that has given up
		c.mu.Lock()
		defer c.mu.Unlock()
		c.received.err = err
	}()
	return c
}

func (c *checker) read(r io.Reader) error {
	for reader := cmaf.NewReader(r); ; {
		chunk, err := reader.Next()
		if err == io.EOF {
			return c.complete()
		}
		if err != nil {
			return err
		}
		if err := c.add(chunk); err != nil {
			return err
		}
	}
}

// add takes the next chunk.
func (c *checker) add(chunk cmaf.Chunk) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.next[chunk.Track]
	if want := c.want.chunks[chunk.Track]; n >= len(want) || !bytes.Equal(want[n], chunk.Data) {
		return fmt.Errorf("chunk %d of track %d is not that of the source", n, chunk.Track)
	}
	c.next[chunk.Track]++
	r := &c.received
	r.objects++
	r.bytes += uint64(len(chunk.Data))
	return nil
}

// complete reports whether all of the source has come.
func (c *checker) complete() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.received.objects != c.want.count {
		return fmt.Errorf("%d of %d chunks have come", c.received.objects, c.want.count)
	}
	return nil
}

func (c *checker) status() received {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.received
}
