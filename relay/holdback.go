package relay

import "context"

// maxHeld is how much waits for a response at most. It waits for a moment only; if it does not, data is what may come first.
const maxHeld = 256

// holdBack keeps a subscription's data back until the message that tells its alias was handed to the transport: a peer has to keep, or drop,
// what overtakes it (draft §11.4.2).
type holdBack struct {
	active bool
	held   []func()
}

// do sends something: now, or when nothing is held back any more. hub.mu is held.
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

// release sends what was held back, in its order; hub.mu is held.
func (b *holdBack) release() {
	b.active = false
	held := b.held
	b.held = nil
	for _, send := range held {
		send()
	}
}

// begin lets the data go when the peer's alias is on its way.
func (d *downstream) begin(ctx context.Context) {
	_ = d.pub.Flush(ctx) // fails only if the session or the request has ended
	h := d.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if !d.over {
		d.data.release()
		h.accelerate()
	}
}
