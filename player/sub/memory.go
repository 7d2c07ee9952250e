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

// countLocked takes memory for what is buffered, or being written. Without enough of it, playback ends.
func (p *player) countLocked() {
	n := p.bufferedLocked() + p.writing
	switch more := n - p.counted; {
	case more < 0:
		p.memory.Give(-more)
	case more > 0 && !p.memory.Take(more):
		p.failLocked(errMemory)
		return
	}
	p.counted = n
}

// failLocked ends the player with an error.
func (p *player) failLocked(err error) {
	if p.err == nil {
		p.err = &MediaError{err}
	}
}

// written is called when a batch has been written.
func (p *player) written() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writing = 0
	p.countLocked()
}

// ranOut ends playback because there is no memory for an object that is on its way.
func (p *playback) ranOut() { p.cancel(&MediaError{errMemory}) }
