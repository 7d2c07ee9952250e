package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"sluice/player/cmaf"
)

// source is the media that the demo publishes.
type source struct {
	count    int // of its chunks
	bytes    uint64
	duration time.Duration
}

func openSource(path string) (*source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, reader := new(source), cmaf.NewReader(f)
	init, err := reader.Init()
	if err != nil {
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
		s.count++
		s.bytes += uint64(len(c.Data))
		s.duration = max(s.duration, init.Track(c.Track).Time(c.DecodeTime+c.Duration))
	}
}
