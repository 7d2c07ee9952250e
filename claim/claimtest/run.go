package claimtest

import (
	"iter"

	"sluice/claim"
	"sluice/claim/internal/hook"
)

// run is one execution of a scenario, in one order.
type run struct {
	scenario *Scenario
	actors   []*actor
	words    words
	every    bool // access makes a difference
	changed  bool // a word has turned out to be of several actors
}

// start sets a scenario up and runs each actor up to its first access.
func start(setup func() *Scenario, known words, every bool) *run {
	hook.Interleave = nil
	r := &run{scenario: setup(), words: known, every: every}
	var yields []func(access) bool
	current := 0
	for i, f := range r.scenario.Actors {
		yields = append(yields, nil)
		next, stop := iter.Pull(func(yield func(access) bool) {
			yields[i] = yield
			defer recoverAbandoned()
			f()
		})
		r.actors = append(r.actors, &actor{resume: func() (access, bool) { current = i; return next() }, stop: stop})
	}
	hook.Interleave = func(w any, writes bool) {
		if !yields[current](access{w, writes}) {
			panic(abandoned{})
		}
	}
	for _, a := range r.actors {
		a.step()
	}
	r.settle()
	return r
}

// abandoned unwinds an actor whose run is not continued.
type abandoned struct{}

func recoverAbandoned() {
	if r := recover(); r != nil && r != (abandoned{}) {
		panic(r)
	}
}

// step makes an actor's access, and all that follow and make no difference.
func (r *run) step(i int) {
	r.make(i)
	r.settle()
}

// make makes one access.
func (r *run) make(i int) {
	if r.words.note(r.scenario, i, r.actors[i].at) {
		r.changed = true
	}
	r.actors[i].step()
}

// settle lets each actor go on up to an access that makes a difference. An actor that waits in a loop stays there.
func (r *run) settle() {
	for i, a := range r.actors {
		for places := 0; !a.done && places < 2 && !r.differs(a.at); r.make(i) {
			if _, ok := a.at.word.(place); ok {
				places++
			}
		}
	}
}

// differs reports whether it makes a difference when an access is made.
func (r *run) differs(a access) bool { return r.every || r.words.differ(r.scenario, a) }

// state is the contents of the memory and the local states of all actors.
func (r *run) state() string {
	s := r.scenario.memory()
	for _, a := range r.actors {
		s += "|" + a.history
	}
	return s
}

func (r *run) running() (running actors) {
	for i, a := range r.actors {
		if !a.done {
			running |= 1 << i
		}
	}
	return running
}

// independent returns which of some actors have a next access that may as well come after actor i's.
func (r *run) independent(i int, of actors) (found actors) {
	for j, a := range r.actors {
		if of.has(j) && j != i && !r.every && a.at.commutes(r.actors[i].at) {
			found |= 1 << j
		}
	}
	return found
}

func (r *run) stop() {
	for _, a := range r.actors {
		a.stop()
	}
}

// actor runs as a coroutine that stops before each access to shared state.
type actor struct {
	resume  func() (access, bool)
	stop    func()
	at      access // that it makes next
	done    bool
	history string // the values that it has read: they and its code determine its local state
}

// access is to a word, or a place.
type access struct {
	word   any
	writes bool
}

// commutes reports whether two actors' accesses can be made in either order.
func (a access) commutes(b access) bool {
	return a.word != b.word || !a.writes && !b.writes
}

// step makes the access before which the actor has stopped, and runs it up to the next one.
func (a *actor) step() {
	if p, ok := a.at.word.(place); ok {
		a.history = string(p)
	} else if a.at.word != nil {
		v := word(a.at.word)
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
