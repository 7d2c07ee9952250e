package pub

import "math"

// layers are the priorities of the key frame of a group, of frames that others depend on, and of disposable frames.
// Frames with the same priority share a subgroup, which has one stream.
type layers struct{ key, delta, last uint8 }

// single returns the layers of a track without layers.
func single(priority uint8) layers { return layers{priority, priority, priority} }

// around returns layers whose priorities lie around one, as far as there is room.
func around(priority uint8) layers {
	const step = 32
	return layers{priority - min(priority, step), priority, priority + min(math.MaxUint8-priority, step)}
}

// of returns the subgroup and the priority of a frame, or of a chunk.
func (l layers) of(starts, disposable bool) (subgroup uint64, priority uint8) {
	if starts {
		return 0, l.key
	}
	if l.delta != l.key {
		subgroup++
	}
	if disposable && l.disposable() {
		return subgroup + 1, l.last
	}
	return subgroup, l.delta
}

// keyAlone reports whether the key frame has a subgroup of its own.
func (l layers) keyAlone() bool { return l.key != l.delta }

// disposable reports whether disposable frames have a subgroup of their own.
func (l layers) disposable() bool { return l.last != l.delta }

// reference returns the subgroup of the frames that others depend on, but for a key frame that is alone.
func (l layers) reference() uint64 {
	subgroup, _ := l.of(false, false)
	return subgroup
}
