package queue

import "sync"

// outcome is how a goroutine that passes things on has fared. Its error is told once: by a method, or else by end.
type outcome struct {
	ended chan struct{} // closed when the goroutine has ended

	mu   sync.Mutex // guards the fields below
	err  error      // of the goroutine
	told bool       // a method has returned err
}

func (o *outcome) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = err
}

func (o *outcome) failed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err != nil
}

// tell returns the error, for a method to return.
func (o *outcome) tell() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.tellLocked()
}

func (o *outcome) tellLocked() error {
	o.told = o.told || o.err != nil
	return o.err
}

// end waits until the goroutine has ended. It returns the error, unless a method has.
func (o *outcome) end() error {
	<-o.ended
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.told {
		return nil
	}
	return o.err
}
