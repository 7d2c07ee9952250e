package relay

// maxHeld bounds the data that waits for a response. It waits for a moment only; if it takes longer, the data overtakes
// the response.
const maxHeld = 256

// holdBack holds a subscription's data back until the message with its alias has been handed to the transport: a peer
// has to keep, or drop, data that overtakes that message (draft §11.4.2). Its methods expect hub.mu to be held.
type holdBack struct {
	active bool
	held   []func()
}

// do calls send: now, or when the data is released.
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

// release sends the data that was held back, in its order.
func (b *holdBack) release() {
	b.active = false
	held := b.held
	b.held = nil
	for _, send := range held {
		send()
	}
}
