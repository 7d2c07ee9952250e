package fastpath_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/lab"
	"sluice/internal/thorough"
	"sluice/media"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay"
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

// player notes when objects have come completely, also on streams that are reset later.
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

// TestPriorityDrop puts a subscriber behind a bottleneck of 60 % of the video's rate: it receives every key frame, its
// neighbour everything, and when the path has recovered it receives everything again. With the fast path and without.
func TestPriorityDrop(t *testing.T) {
	thorough.Only(t)
	for _, off := range []bool{false, true} {
		t.Run(fmt.Sprintf("fastpath=%v", !off), func(t *testing.T) {
			t.Parallel() // they mostly wait
			require.True(t, dropsByPriority(t, off), "the camera was late")
		})
	}
}

// dropsByPriority reports whether nothing but the bottleneck was slow: on a busy machine the camera is late, all peers
// are, and the relay drops something for the neighbour as well.
func dropsByPriority(t *testing.T, off bool) bool {
	delay := lab.Symmetric(lab.Conditions{Delay: 5 * time.Millisecond})
	w := newWorld(t, worldConfig{
		topology: lab.Topology{Subscribers: 2, Downlink: delay}, off: off, budget: relay.FastPathBudget(0),
		policy: func() media.DropPolicy { return new(media.PriorityDrop) },
	})
	p := w.publisher("moqt")
	players := make([]*player, 2)
	for i, h := range w.lab.Subscribers {
		players[i] = &player{came: make(map[moqt.Location]time.Time)}
		sub, err := w.connect(h, []string{"moqt", "https"}[i], nil, transport.Limits{}).Subscribe(t.Context(),
			moqt.Subscribe{Track: trackName(0)}, players[i])
		require.NoError(t, err)
		_, err = sub.Wait(t.Context())
		require.NoError(t, err)
	}
	slow, neighbour := players[0], players[1]
	cam := &camera{world: w, pub: <-p.subscribed}
	link := w.lab.Subscribers[0].Devices[0].Link

	cam.groups(4)
	if w.awaitAll(slow, 4); cam.isLate() && slow.wasReset() {
		return false
	}
	require.False(t, slow.wasReset(), "dropped without a bottleneck")
	require.NoError(t, link.Set(lab.ToHost, lab.Conditions{Rate: videoRate * 6 / 10, Delay: 5 * time.Millisecond}))
	cam.groups(14)
	congested := cam.next
	require.NoError(t, link.Set(lab.ToHost, delay.ToHost))
	for n, whole := 0, 0; whole < 5; n++ { // one after the other
		if n == 80 {
			require.True(t, cam.isLate(), "the subscriber does not recover")
			return false
		}
		cam.groups(1)
		time.Sleep(gop / 2)
		if whole++; !slow.has(cam.next - 1) {
			whole = 0
		}
	}
	recovered := cam.next - congested - 4
	w.awaitAll(neighbour, cam.next)
	if cam.isLate() && (neighbour.wasReset() || slow.keys() < int(cam.next)) {
		return false
	}

	late := slow.latenessOfKeys(t, neighbour, cam.next)
	all := int(cam.next) * framesPerGOP
	t.Logf("%d of %d frames dropped, %d streams reset; all frames again after %d groups", all-len(slow.came), all,
		slow.resets, recovered)
	t.Logf("key frames later than the neighbour's: median %v, at most %v", late[len(late)/2], late[len(late)-1])
	require.Empty(t, slow.errs)
	require.Empty(t, neighbour.errs)
	require.NotZero(t, slow.resets, "nothing was dropped")
	require.Zero(t, neighbour.resets)
	require.Len(t, neighbour.came, int(cam.next)*framesPerGOP)
	w.report()
	return true
}

// tooLate is how late the camera is on a machine that is too busy: half of the wait that media.PriorityDrop allows.
const tooLate = 200 * time.Millisecond

// awaitAll waits until all frames of so many groups have come, or the relay has dropped something for the player.
func (w *world) awaitAll(p *player, groups uint64) {
	w.Helper()
	for g := range groups {
		require.Eventually(w, func() bool { return p.has(g) || p.wasReset() }, time.Minute, 10*time.Millisecond,
			"group %d", g)
	}
}

// wasReset reports whether the relay has dropped something for the player.
func (p *player) wasReset() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resets > 0
}

// keys returns how many key frames have come.
func (p *player) keys() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := range p.came {
		if at.Object == 0 {
			n++
		}
	}
	return n
}

// latenessOfKeys returns how much later than another player's all key frames have come, sorted.
func (p *player) latenessOfKeys(t *testing.T, other *player, groups uint64) (late []time.Duration) {
	for g := range groups {
		at := moqt.Location{Group: g}
		require.Contains(t, p.came, at, "a key frame is missing; there are %v", slices.Collect(maps.Keys(p.came)))
		late = append(late, p.came[at].Sub(other.came[at]))
	}
	slices.Sort(late)
	return late
}

// camera publishes the video.
type camera struct {
	*world
	pub  *session.Publication
	next uint64
	late time.Duration // by how much a frame was, at most
}

// isLate reports whether a frame was too late.
func (v *camera) isLate() bool {
	if v.late > tooLate {
		v.Logf("the camera was late by %v", v.late)
	}
	return v.late > tooLate
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
		v.late = max(v.late, time.Since(due))
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
