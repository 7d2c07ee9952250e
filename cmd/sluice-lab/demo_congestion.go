package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"sluice/internal/cmaf"
	"sluice/internal/lab"
)

// The demo of congestion: sub1 is behind a bottleneck for a while, and the relay drops by priority.
const (
	congestionDuration = 30 * time.Second // of media, at least
	congestionFrom     = 5 * time.Second
	congestionTo       = 15 * time.Second
	congestionShare    = 0.6 // of the clip's rate
	congestionQueue    = 200 * time.Millisecond
	congestionTail     = 4 * time.Second // of media at the end: everything has recovered by then
)

// bottleneck returns the rate to which sub1 is limited.
func (s *source) bottleneck() lab.Rate {
	return lab.Rate(congestionShare * float64(s.bytes) * 8 / s.duration.Seconds())
}

// limitFirst limits the rate of sub1 from congestionFrom to congestionTo.
func (d *demo) limitFirst(ctx context.Context) error {
	for _, step := range []struct {
		after time.Duration
		rate  lab.Rate
	}{{congestionFrom, d.want.bottleneck()}, {congestionTo - congestionFrom, 0}} {
		select {
		case <-time.After(step.after):
		case <-ctx.Done():
			return nil
		}
		if err := d.stage.limit(lab.SubscriberName(1), step.rate, congestionQueue); err != nil {
			return err
		}
	}
	return nil
}

// extendClip writes a clip to a file in dir again and again, with times that continue, until it is long enough.
func extendClip(clip, dir string, atLeast time.Duration) (path string, err error) {
	media, err := openSource(clip)
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "clip.mp4")
	out, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := out.Write(media.init.Data); err != nil {
		return "", err
	}
	sequence := uint32(0)
	for shift := time.Duration(0); shift < atLeast; shift += media.duration {
		for _, c := range media.order {
			sequence++
			if _, err := out.Write(c.Later(media.init.Track(c.Track).Ticks(shift), sequence).Data); err != nil {
				return "", err
			}
		}
	}
	return path, nil
}

// trackNames returns the names under which sluice pub publishes the source's tracks.
func (s *source) trackNames() (names []string) {
	for _, t := range s.init.Tracks {
		names = append(names, fmt.Sprintf("%d.m4s", t.ID))
	}
	return names
}

// listed describes a chunk that sluice sub --raw lists.
type listed struct {
	key  int // number of the video key frame, from 0; -1: not a key frame
	tail bool
}

// list describes the chunks of the source, by the hashes that sluice sub --raw writes.
func (s *source) list() {
	s.listed = make(map[string]listed)
	for _, c := range s.order {
		l := listed{key: -1, tail: s.init.Track(c.Track).Time(c.DecodeTime) >= s.duration-congestionTail}
		if c.Sync && s.init.Track(c.Track).Kind == cmaf.Video {
			l.key = s.keys
			s.keys++
		}
		if l.tail {
			s.tail++
		}
		s.listed[fmt.Sprintf("sha256=%x", sha256.Sum256(c.Data))] = l
	}
}

// readAll reads the output of sluice sub --raw, which must list all chunks.
func (c *checker) readAll(r io.Reader) error { return cmp.Or(c.readList(r), c.complete()) }

// readLimited reads the output for sub1. The relay may have dropped some of its chunks.
func (c *checker) readLimited(r io.Reader) error { return cmp.Or(c.readList(r), c.playable()) }

func (c *checker) readList(r io.Reader) error {
	c.mu.Lock()
	c.received.keys = make([]time.Time, c.want.keys)
	c.mu.Unlock()
	seen := make(map[string]bool)
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		hash := lines.Text()[strings.LastIndexByte(lines.Text(), ' ')+1:]
		what, ok := c.want.listed[hash]
		if !ok || seen[hash] {
			return fmt.Errorf("not a chunk of the source, or it arrived twice: %s", lines.Text())
		}
		seen[hash] = true
		c.note(what)
	}
	return lines.Err()
}

func (c *checker) note(what listed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, now := &c.received, time.Now()
	if r.objects > 0 {
		r.silence = max(r.silence, now.Sub(r.last))
	}
	r.objects++
	r.last = now
	if what.key >= 0 {
		r.keys[what.key] = now
	}
	if what.tail {
		r.tail++
	}
}

// playable returns an error unless all key frames have arrived, and all chunks at the end.
func (c *checker) playable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.received.keyFrames(); n < c.want.keys {
		return fmt.Errorf("%d of %d key frames have arrived", n, c.want.keys)
	}
	if c.received.tail < c.want.tail {
		return fmt.Errorf("%d of %d chunks of the last %v have arrived", c.received.tail, c.want.tail, congestionTail)
	}
	return nil
}

func (r *received) keyFrames() (n int) {
	for _, at := range r.keys {
		if !at.IsZero() {
			n++
		}
	}
	return n
}

// latest returns by how much a key frame arrived later than at another subscriber, at most.
func (r *received) latest(other received) (late time.Duration) {
	for i, at := range r.keys {
		if !at.IsZero() && !other.keys[i].IsZero() {
			late = max(late, at.Sub(other.keys[i]))
		}
	}
	return late
}

// congestionRows writes the table of the demo of congestion.
func (t *demoTable) congestionRows(w *tabwriter.Writer) {
	fmt.Fprintln(w, "\tOVER\tOBJECTS\tKEY FRAMES\tKERNEL\tPROCESS\tSTATE")
	for _, s := range t.demo.subscribers {
		r := s.got.status()
		state := s.state(r.err)
		if dropped := t.demo.want.count - r.objects; state == identical && dropped > 0 {
			state = fmt.Sprintf("%d dropped", dropped)
		}
		fmt.Fprintf(w, "%s\t%s\t%d/%d\t%d/%d\t%s\t%s\n", s.name, s.over, r.objects, t.demo.want.count,
			r.keyFrames(), t.demo.want.keys, hop{t.demo.last(), s.name, s}.packetsText(), state)
	}
}

// congestionSummary prints the effects of the bottleneck.
func (t *demoTable) congestionSummary() {
	want, slow, neighbour := t.demo.want, t.demo.subscribers[0], t.demo.subscribers[1]
	r, other := slow.got.status(), neighbour.got.status()
	fmt.Fprintf(t.w, "\n%s was behind %.2f Mbit/s, %.0f %% of the clip's rate, from %v to %v. ",
		slow.name, float64(want.bottleneck())/1e6, 100*congestionShare, congestionFrom, congestionTo)
	fmt.Fprintf(t.w, "It received %d of %d key frames,\n", r.keyFrames(), want.keys)
	fmt.Fprintf(t.w, "at most %v later than %s, and was without media for at most %v. ",
		r.latest(other).Round(time.Millisecond), neighbour.name, r.silence.Round(time.Millisecond))
	fmt.Fprintf(t.w, "%d of %d objects were dropped,\n%d of the %d in the last %v. %s received %d objects.\n",
		want.count-r.objects, want.count, want.tail-r.tail, want.tail, congestionTail, neighbour.name, other.objects)
}
