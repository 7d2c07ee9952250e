// Package clustertest has an engine of clusters in memory, for tests. It can lose messages, and be away.
package clustertest

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"sluice/server/cluster"
)

// Bus carries the messages of a cluster in memory. The zero value is ready for use.
type Bus struct {
	mu       sync.Mutex
	lose     func(to, subject string) bool
	away     bool
	alone    bool
	ends     []*end
	messages int
}

// Messages returns how many messages the bus has delivered.
func (b *Bus) Messages() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.messages
}

// SetLose sets the function that decides whether a message gets lost on its way to a node. Nil: none does.
func (b *Bus) SetLose(lose func(to, subject string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lose = lose
}

// SetAway makes the bus lose all messages, and say so, or ends that.
func (b *Bus) SetAway(away bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away, b.alone = away, false
}

// SetAlone makes the bus lose all messages, as if each engine had lost all others, or ends that.
func (b *Bus) SetAlone(alone bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away, b.alone = alone, alone
}

// Engine returns the engine of a node. The name is for SetLose.
func (b *Bus) Engine(name string) cluster.Engine {
	e := &end{bus: b, name: name, wake: make(chan struct{}, 1), done: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ends = append(b.ends, e)
	return e
}

type message struct {
	subject string
	data    []byte
}

// end is the engine of a node.
type end struct {
	bus     *Bus
	name    string
	wake    chan struct{}
	done    chan struct{}
	running sync.WaitGroup

	// Guarded by bus.mu.
	patterns []string
	queue    []message
	closed   bool
}

// Publish implements cluster.Engine.
func (e *end) Publish(subject string, data []byte) error {
	b := e.bus
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away || e.closed {
		return errors.New("the bus is away")
	}
	for _, to := range b.ends {
		matches := slices.ContainsFunc(to.patterns, func(p string) bool { return Matches(p, subject) })
		if !matches || to.closed || b.lose != nil && b.lose(to.name, subject) {
			continue
		}
		b.messages++
		to.queue = append(to.queue, message{subject, data})
		select {
		case to.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// Subscribe implements cluster.Engine.
func (e *end) Subscribe(f func(subject string, data []byte), patterns ...string) error {
	e.bus.mu.Lock()
	e.patterns = patterns
	e.bus.mu.Unlock()
	e.running.Go(func() { e.deliver(f) })
	return nil
}

func (e *end) deliver(f func(subject string, data []byte)) {
	for {
		select {
		case <-e.wake:
		case <-e.done:
			return
		}
		e.bus.mu.Lock()
		queue := e.queue
		e.queue = nil
		e.bus.mu.Unlock()
		for _, m := range queue {
			f(m.subject, m.data)
		}
	}
}

// Present implements cluster.Engine.
func (e *end) Present() bool {
	e.bus.mu.Lock()
	defer e.bus.mu.Unlock()
	return !e.bus.away
}

// Alone implements cluster.Engine.
func (e *end) Alone() bool {
	e.bus.mu.Lock()
	defer e.bus.mu.Unlock()
	return e.bus.alone
}

// Close implements cluster.Engine. It also stands for the death of a node that says nothing.
func (e *end) Close() error {
	e.bus.mu.Lock()
	closed := e.closed
	e.closed = true
	e.bus.mu.Unlock()
	if !closed {
		close(e.done)
	}
	e.running.Wait()
	return nil
}

// Matches reports whether a subject matches a pattern, as NATS does.
func Matches(pattern, subject string) bool {
	want, have := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range want {
		switch {
		case token == ">":
			return len(have) > i
		case i >= len(have), token != "*" && token != have[i]:
			return false
		}
	}
	return len(want) == len(have)
}
