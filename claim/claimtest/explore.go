package claimtest

import (
	"iter"
	"slices"
	"testing"

	"sluice/claim"
	"sluice/claim/internal/hook"
)

// Explore runs the actors of a scenario in every order of their accesses to shared state, and its Check at each end. It
// returns the numbers of different states and of ends. A state that was reached before, in memory and in all actors, is
// not explored again.
func Explore(t *testing.T, setup func() *Scenario) (states, ends int) {
	t.Helper()
	defer func() { hook.Interleave = nil }()
	visited := make(map[string]bool)
	pending := [][]int{nil}
	for len(pending) > 0 {
		order := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		r := start(setup)
		for _, i := range order {
			r.actors[i].step()
		}
		if state := r.state(); !visited[state] {
			visited[state] = true
			running := r.running()
			for _, i := range running {
				pending = append(pending, append(slices.Clone(order), i))
			}
			if len(running) == 0 {
				ends++
				hook.Interleave = nil
				r.scenario.Check()
			}
		}
		r.stop()
		if r.scenario.Enough != nil && r.scenario.Enough() {
			break
		}
	}
	return len(visited), ends
}

// Forget says that all that the running actor has seen so far no longer matters: from here on its local state is only
// at, a place in its code. It makes fewer states to explore.
func Forget(at string) { hook.Interleave(place(at)) }

// place is a place in an actor's code.
type place string

// run is one execution of a scenario, in one order.
type run struct {
	scenario *Scenario
	actors   []*actor
}

// start sets a scenario up and runs each actor up to its first access.
func start(setup func() *Scenario) *run {
	hook.Interleave = nil
	r := &run{scenario: setup()}
	var yields []func(any) bool
	current := 0
	for i, f := range r.scenario.Actors {
		yields = append(yields, nil)
		next, stop := iter.Pull(func(yield func(any) bool) {
			yields[i] = yield
			defer recoverAbandoned()
			f()
		})
		r.actors = append(r.actors, &actor{resume: func() (any, bool) { current = i; return next() }, stop: stop})
	}
	hook.Interleave = func(w any) {
		if !yields[current](w) {
			panic(abandoned{})
		}
	}
	for _, a := range r.actors {
		a.step()
	}
	return r
}

// abandoned unwinds an actor whose run is not continued.
type abandoned struct{}

func recoverAbandoned() {
	if r := recover(); r != nil && r != (abandoned{}) {
		panic(r)
	}
}

// state is the contents of the memory and the local states of all actors.
func (r *run) state() string {
	s := r.scenario.memory()
	for _, a := range r.actors {
		s += "|" + a.history
	}
	return s
}

func (r *run) running() (indices []int) {
	for i, a := range r.actors {
		if !a.done {
			indices = append(indices, i)
		}
	}
	return indices
}

func (r *run) stop() {
	for _, a := range r.actors {
		a.stop()
	}
}

// actor runs as a coroutine that stops before each access to shared state.
type actor struct {
	resume  func() (any, bool)
	stop    func()
	at      any // the word that it accesses next, or a place
	done    bool
	history string // what it has seen: together with its code, its local state
}

// step makes the access before which the actor has stopped, and runs it up to the next one.
func (a *actor) step() {
	if p, ok := a.at.(place); ok {
		a.history = string(p)
	} else if a.at != nil {
		v := word(a.at)
		a.history += bytesOf(&v)
	}
	at, ok := a.resume()
	a.at, a.done = at, !ok
}

// word returns the value of a word without being an access.
func word(w any) uint64 {
	saved := hook.Interleave
	hook.Interleave = nil
	defer func() { hook.Interleave = saved }()
	switch w := w.(type) {
	case *claim.Word:
		return w.Load()
	case *claim.Word32:
		return uint64(w.Load())
	}
	return 0
}
