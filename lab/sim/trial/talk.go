package trial

import (
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"time"

	"sluice/server/handover"
)

// Talk is what happens to the conversation by which one process replaces another (package handover). Its messages are
// request, offer, ready and done.
type Talk struct {
	Late [4]time.Duration // how late the receiver of each is awake
	Cut  int              `json:",omitempty"` // the conversation ends instead of this message; 0: of none
}

// latest is how late a process that has taken over is awake if another publisher may come then: nobody else serves it,
// and subscribers wait for 5 s (relay.Config.Grace).
const latest = 3 * time.Second

// talks has some conversations be slow or end early, and another process ask while one gets ready.
func talks(g *generator, rng *rand.Rand) {
	for i := range g.Mishaps {
		m := &g.Mishaps[i]
		if m.What != Upgrade {
			continue
		}
		switch rng.IntN(6) {
		case 0:
			m.Talk.Late[rng.IntN(4)] = time.Duration(rng.Int64N(int64(8 * time.Second)))
			if len(g.Media.Successions) > 0 {
				m.Talk.Late[3] = min(m.Talk.Late[3], latest)
			}
		case 1:
			m.Talk.Cut = 1 + rng.IntN(4)
		case 2:
			another := *m
			another.At = min(m.At+time.Duration(rng.Int64N(int64(4*time.Second))), g.length())
			g.Mishaps = append(g.Mishaps, another)
		}
	}
}

// end is one end of a conversation. It implements [handover.Conn] as a Unix socket does.
type end struct {
	talk          Talk
	send, receive int // the next messages, from 1 on
	in, out       *messages
	deadline      time.Time
}

var _ handover.Conn = (*end)(nil)

// messages are those that wait in one direction.
type messages struct {
	mu      sync.Mutex
	changed sync.Cond // of what follows, or a deadline is over
	waiting []message
	over    bool // no more are taken
}

type message struct {
	text  []byte
	files []int
}

// newTalk returns the ends of a new process and of the running one.
func newTalk(t Talk) (asks, answers *end) {
	there, back := new(messages), new(messages)
	there.changed.L, back.changed.L = &there.mu, &back.mu
	return &end{talk: t, send: 1, receive: 2, in: back, out: there},
		&end{talk: t, send: 2, receive: 1, in: there, out: back}
}

// change changes something, and wakes who waits.
func (m *messages) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	m.changed.Broadcast()
}

// end has no more messages be taken.
func (m *messages) end() { m.change(func() { m.over = true }) }

// Send implements [handover.Conn].
func (e *end) Send(text []byte, files ...int) (err error) {
	if e.send == e.talk.Cut {
		_ = e.Close()
	}
	e.send += 2
	e.out.change(func() {
		if e.out.over {
			err = syscall.EPIPE
			return
		}
		e.out.waiting = append(e.out.waiting, message{text, files})
	})
	return err
}

// Receive implements [handover.Conn]. A process that is awake late does not find what has come if the deadline is over.
func (e *end) Receive() (text []byte, files []int, err error) {
	m := e.in
	m.mu.Lock()
	defer m.mu.Unlock()
	defer time.AfterFunc(time.Until(e.deadline), func() { m.change(func() {}) }).Stop()
	for len(m.waiting) == 0 && !m.over && time.Now().Before(e.deadline) {
		m.changed.Wait()
	}
	if e.receive <= len(e.talk.Late) {
		m.mu.Unlock()
		time.Sleep(e.talk.Late[e.receive-1])
		m.mu.Lock()
	}
	e.receive += 2
	switch {
	case !time.Now().Before(e.deadline):
		return nil, nil, os.ErrDeadlineExceeded
	case len(m.waiting) == 0:
		return nil, nil, io.EOF
	}
	first := m.waiting[0]
	m.waiting = m.waiting[1:]
	return first.text, first.files, nil
}

// CloseRead implements [handover.Conn].
func (e *end) CloseRead() error {
	e.in.end()
	return nil
}

// SetDeadline implements [handover.Conn].
func (e *end) SetDeadline(t time.Time) error {
	e.deadline = t
	return nil
}

// Peer implements [handover.Conn].
func (*end) Peer() (pid int, err error) { return 1, nil }

// Close implements [handover.Conn].
func (e *end) Close() error {
	e.in.end()
	e.out.end()
	return nil
}
