package media

import "sync"

// senderLock guards a sender, and collects callbacks while it is held: they are made without it. Use Unlock only
// where there can be none.
type senderLock struct {
	sync.Mutex
	sender *Sender
	after  []func() // guarded by the lock
}

// later plans a callback. The lock is held.
func (l *senderLock) later(f func()) { l.after = append(l.after, f) }

// release unlocks. It leaves callbacks to the shard's goroutine, because the caller, or a goroutine that waits for
// the caller, may hold locks that the callbacks take.
func (l *senderLock) release() {
	tell := len(l.after) > 0
	l.Unlock()
	if tell && !l.sender.shard.enqueue(l.sender) {
		go l.tell() // the loop is closed
	}
}

// tell makes the callbacks. The lock is not held.
func (l *senderLock) tell() {
	l.Lock()
	l.releaseAndTell()
}

// releaseAndTell unlocks and makes the callbacks.
func (l *senderLock) releaseAndTell() {
	after := l.after
	l.after = nil
	l.Unlock()
	for _, f := range after {
		f()
	}
}
