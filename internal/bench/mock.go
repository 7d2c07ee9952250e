package bench

import (
	"errors"
	"fmt"
	"time"

	"sluice/moqt"
)

// media is what a publisher publishes and subscribers expect.
type media interface {
	// frame describes the n-th frame of the broadcast, counted from 0.
	frame(n uint64) frame
	// payload returns its content.
	payload(n uint64, published time.Time) []byte
	// verify returns when the object at a location was published, or why its content is not what belongs there.
	verify(moqt.Location, *digest) (published time.Time, err error)
}

type frame struct {
	at    moqt.Location
	layer int
	due   time.Duration // since the first one
}

// Mock describes mock video: groups that begin with a key frame. The zero value is 2 Mbit/s at 25 frames a second, in groups of 2 s
// with key frames of five times the size of others, a subgroup for each group.
type Mock struct {
	Rate      float64 `json:"rate"`      // payload bits a second; default: 2e6
	FrameRate float64 `json:"frameRate"` // default: 25
	Group     int     `json:"group"`     // frames of a group; default: 50
	Key       float64 `json:"key"`       // size of a key frame, in other frames; default: 5
	// Layers gives key frames and three temporal layers a subgroup each, with falling priority.
	Layers bool `json:"layers"`
}

func (m Mock) withDefaults() Mock {
	if m.Rate == 0 {
		m.Rate = 2e6
	}
	if m.FrameRate == 0 {
		m.FrameRate = 25
	}
	if m.Group == 0 {
		m.Group = 50
	}
	if m.Key == 0 {
		m.Key = 5
	}
	return m
}

func (m Mock) validate() error {
	if m.Rate <= 0 || m.FrameRate <= 0 || m.FrameRate > 1000 || m.Group < 1 || m.Key < 1 {
		return fmt.Errorf("mock video of %g bit/s, %g frames a second, %d frames a group, key frames of %g frames: all have to be positive", m.Rate, m.FrameRate, m.Group, m.Key)
	}
	if delta, key := m.size(1), m.size(0); delta < payloadMinimum || key > maxPayload {
		return fmt.Errorf("mock video has frames of %d and %d bytes: they have to have %d to %d", delta, key, payloadMinimum, maxPayload)
	}
	return nil
}

// interval is the time between two frames.
func (m Mock) interval() time.Duration { return time.Duration(float64(time.Second) / m.FrameRate) }

// frame implements media.
func (m Mock) frame(n uint64) frame {
	at := moqt.Location{Group: n / uint64(m.Group), Object: n % uint64(m.Group)}
	return frame{at: at, layer: m.layer(at.Object), due: time.Duration(n) * m.interval()}
}

// size is that of the n-th frame, bytes.
func (m Mock) size(n uint64) int {
	group := m.Rate / 8 / m.FrameRate * float64(m.Group)
	delta := group / (float64(m.Group) - 1 + m.Key)
	if n%uint64(m.Group) == 0 {
		return int(delta * m.Key)
	}
	return int(delta)
}

// payload implements media.
func (m Mock) payload(n uint64, published time.Time) []byte {
	size := m.size(n)
	return appendPayload(make([]byte, 0, size), n, published, size)
}

// errElsewhere says that an intact object came in the place of another one.
var errElsewhere = errors.New("the object belongs elsewhere")

// verify implements media.
func (m Mock) verify(at moqt.Location, d *digest) (time.Time, error) {
	n, published, err := d.mock()
	if err == nil && n != at.Group*uint64(m.Group)+at.Object {
		err = errElsewhere
	}
	return published, err
}

// Layers of mock video are its subgroups: key frames, and three temporal layers.
const (
	layerKey    = iota // all frames, if there are no layers
	layerBase          // every fourth frame
	layerMiddle        // those in the middle between two of them
	layerTop           // the others
	layers
)

func (m Mock) layer(object uint64) int {
	switch {
	case !m.Layers || object == 0:
		return layerKey
	case object%4 == 0:
		return layerBase
	case object%2 == 0:
		return layerMiddle
	}
	return layerTop
}

// dependsOn returns the frame that the n-th one depends on directly, which is the one before it in its own or the layer below; ok is false
// if there is none.
func (m Mock) dependsOn(n uint64) (on uint64, ok bool) {
	object := n % uint64(m.Group)
	switch m.layer(object) {
	case layerBase:
		return n - 4, true
	case layerMiddle:
		return n - 2, true
	case layerTop:
		return n - 1, true
	}
	return n - 1, object > 0 // without layers
}

// priority of a layer, as a publisher's (draft §7): 0 is the most urgent.
func priority(layer int) uint8 { return uint8(64 + 32*layer) }
