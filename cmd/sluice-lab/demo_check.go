package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"sluice/player/cmaf"
)

// source is the media that the demo publishes.
type source struct {
	init     *cmaf.Init
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
	if s.init, err = reader.Init(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
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
		s.duration = max(s.duration, s.init.Track(c.Track).Time(c.DecodeTime+c.Duration))
	}
}

// checker compares the media that a subscriber plays with the source, chunk by chunk.
type checker struct {
	want *source
	in   *io.PipeWriter // takes the media
	done chan struct{}

	mu       sync.Mutex
	received received
	next     map[uint32]int // chunks that have arrived, by track
}

// received counts the objects that a subscriber has received.
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
		io.Copy(io.Discard, out) // so that the writer does not wait for a reader that has returned
		c.mu.Lock()
		defer c.mu.Unlock()
		c.received.err = err
	}()
	return c
}

// read reads fragmented MP4, which must be the whole source.
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

// add compares a chunk with the next one of its track.
func (c *checker) add(chunk cmaf.Chunk) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.next[chunk.Track]
	if want := c.want.chunks[chunk.Track]; n >= len(want) || !bytes.Equal(want[n], chunk.Data) {
		return fmt.Errorf("chunk %d of track %d differs from the source", n, chunk.Track)
	}
	c.next[chunk.Track]++
	r := &c.received
	r.objects++
	r.bytes += uint64(len(chunk.Data))
	return nil
}

// complete returns an error unless the whole source has arrived.
func (c *checker) complete() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.received.objects != c.want.count {
		return fmt.Errorf("%d of %d chunks have arrived", c.received.objects, c.want.count)
	}
	return nil
}

func (c *checker) status() received {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.received
}
