package relay

// maxHeld is how much waits for a response at most. It waits for a moment only; if it takes longer, the data overtakes
// the response.
const maxHeld = 256

// holdBack keeps a subscription's data back until the message that tells its alias was handed to the transport: a peer
// has to keep, or drop, what overtakes that message (draft §11.4.2). Its methods expect hub.mu to be held.
type holdBack struct {
	active bool
	held   []func()
}

// do sends something: now, or when nothing is held back any more.
func (b *holdBack) do(send func()) {
	if b.active && len(b.held) == maxHeld {
		b.release()
	}
	if b.active {
		b.held = append(b.held, send)
		return
	}
	send()
}

// release sends what was held back, in its order.
func (b *holdBack) release() {
	b.active = false
	held := b.held
	b.held = nil
	for _, send := range held {
		send()
	}
}
