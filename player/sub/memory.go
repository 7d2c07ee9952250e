package sub

import "errors"

// Memory bounds what playback keeps of a broadcast. Methods are called on many goroutines.
type Memory interface {
	// Take reports whether there are n bytes more. If not, playback ends.
	Take(n int) bool
	// Give gives bytes back. What a call of Run has not given back when it returns is free, too.
	Give(n int)
}

// unbounded is the Memory of a process that plays for its user.
type unbounded struct{}

func (unbounded) Take(int) bool { return true }
func (unbounded) Give(int)      {}

var errMemory = errors.New("the broadcast needs more memory than there is for it")

// Memory that is taken beside the bytes of media: of an object that waits, and of a stream that is read.
const (
	itemOverhead   = 256
	streamOverhead = 32 << 10
)
