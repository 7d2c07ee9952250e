package fastpath_test

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// Video of 1.8 Mbit/s: a key frame each half second in a subgroup of its own, and the other frames in another one.
const (
	gop           = 500 * time.Millisecond
	framesPerGOP  = 12
	keySize       = 20_000
	deltaSize     = 8_000
	videoRate     = lab.Rate((keySize + (framesPerGOP-1)*deltaSize) * 8 * int(time.Second/gop))
	keyPriority   = 32
	deltaPriority = 160
)

func frameSize(object uint64) int {
	if object == 0 {
		return keySize
	}
	return deltaSize
}

// player notes when objects have come completely, also those of streams that are reset later.
type player struct {
	mu     sync.Mutex
	came   map[moqt.Location]time.Time
	resets int
	errs   []error
}

func (p *player) HandleDatagram(*moqt.ObjectDatagram) {}

func (p *player) HandleSubgroup(g *session.Subgroup) {
	parser := moqt.NewSubgroupParser(moqt.DataLayout1, g.Header, 0)
	buf := make([]byte, 16<<10)
	var at moqt.Location
	var body []byte
	for left := 0; ; {
		n, err := g.Read(buf)
		for b := buf[:n]; len(b) > 0; {
			if left > 0 {
				m := min(left, len(b))
				parser.Next(b[:m])
				body, b, left = append(body, b[:m]...), b[m:], left-m
				if left == 0 {
					p.add(at, body)
				}
				continue
			}
			o, m, err := parser.Next(b)
			if err != nil {
				break // the rest of the header is to come
			}
			at, left, body, b = moqt.Location{Group: g.Header.GroupID,
				Object: o.ObjectID}, int(o.PayloadLength), nil, b[m:]
		}
		switch {
		case err == io.EOF:
			return
		case err != nil:
			p.mu.Lock()
			p.resets++
			p.mu.Unlock()
			return
		}
	}
}

func (p *player) add(at moqt.Location, body []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, twice := p.came[at]; twice || !bytes.Equal(body, payload(at.Group, at.Object, frameSize(at.Object))) {
		p.errs = append(p.errs, fmt.Errorf("object %v came twice, or differs", at))
	}
	p.came[at] = time.Now()
}

// has reports whether all frames of a group have come.
func (p *player) has(group uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for o := range uint64(framesPerGOP) {
		if _, ok := p.came[moqt.Location{Group: group, Object: o}]; !ok {
			return false
		}
	}
	return true
}

// await waits until all frames of a group have come.
func (w *world) await(p *player, group uint64) {
	w.Helper()
	require.Eventually(w, func() bool { return p.has(group) }, time.Minute, 10*time.Millisecond, "group %d", group)
}

// camera publishes the video.
type camera struct {
	*world
	pub  *session.Publication
	next uint64
}

// groups publishes some groups at the pace of their frames.
func (v *camera) groups(n int) {
	for range n {
		v.group()
	}
}

func (v *camera) group() {
	v.Helper()
	begin := time.Now()
	key := v.open(0, keyPriority)
	key.frame(0)
	require.NoError(v, key.stream.Close())
	delta := v.open(1, deltaPriority)
	for o := uint64(1); o < framesPerGOP; o++ {
		due := begin.Add(time.Duration(o) * gop / framesPerGOP)
		time.Sleep(time.Until(due))
		delta.frame(o)
	}
	require.NoError(v, delta.stream.Close())
	time.Sleep(time.Until(begin.Add(gop)))
	v.next++
}

func (v *camera) open(subgroup uint64, priority uint8) *videoStream {
	h := moqt.SubgroupHeader{GroupID: v.next, SubgroupIDMode: moqt.SubgroupIDPresent, SubgroupID: subgroup,
		Priority: priority, FirstObject: true}
	str, err := v.pub.OpenSubgroup(v.Context(), h)
	require.NoError(v, err)
	return &videoStream{v, h.GroupID, moqt.NewSubgroupEncoder(moqt.DataLayout1, h), str}
}

type videoStream struct {
	*camera
	id      uint64
	encoder moqt.SubgroupEncoder
	stream  transport.SendStream
}

func (s *videoStream) frame(object uint64) {
	body := payload(s.id, object, frameSize(object))
	p, err := s.encoder.AppendObject(nil, moqt.ObjectHeader{ObjectID: object, PayloadLength: uint64(len(body))})
	require.NoError(s, err)
	_, err = s.stream.Write(append(p, body...))
	require.NoError(s, err)
}
