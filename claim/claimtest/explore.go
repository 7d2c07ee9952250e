package claimtest

import (
	"slices"
	"testing"

	"sluice/claim/internal/hook"
)

// Explored is the work that Explore has done.
type Explored struct {
	States int // different states, in memory and in all actors
	Ends   int // of all actors
	Runs   int // orders that were tried
}

// Explore runs the actors of a scenario in every order of their accesses to shared state that can make a difference,
// and its Check at each end. A state that was reached before is not explored again, as far as it was.
//
// Two orders that differ only in neighbouring accesses to different words, or in neighbouring loads, lead to the same
// state with the same local states: only one of them is tried (sleep sets; P. Godefroid, Partial-Order Methods for the
// Verification of Concurrent Systems, 1996, chapter 5). An access to a word that no other actor changes makes no
// difference at all, and is made at once, see words. All local states of actors are reached.
func Explore(t *testing.T, setup func() *Scenario) Explored {
	t.Helper()
	return explore(setup, false)
}

// explore explores a scenario, by all orders if it is to.
func explore(setup func() *Scenario, all bool) Explored {
	defer func() { hook.Interleave = nil }()
	known := make(words)
	for {
		e := exploration{setup: setup, words: known, visited: make(map[string]actors), every: all}
		if e.all() {
			return e.Explored
		}
	}
}

// actors is a set of actors, by their indices.
type actors uint8

func (a actors) has(i int) bool { return a&(1<<i) != 0 }

// exploration goes through the orders, depth first.
type exploration struct {
	Explored
	setup   func() *Scenario
	words   words
	every   bool              // order, also one that makes no difference
	visited map[string]actors // states, and the actors that slept in each visit
	pending []branch
}

// branch is where another order begins.
type branch struct {
	order []int  // the actors that make the accesses before
	next  int    // the actor that makes the next one; -1: nothing comes before
	sleep actors // their next accesses need not come next: orders that begin so were tried
}

// all explores all orders. It reports false if a word that was taken to be of one actor is not.
func (e *exploration) all() bool {
	e.pending = []branch{{next: -1}}
	for len(e.pending) > 0 {
		b := e.pending[len(e.pending)-1]
		e.pending = e.pending[:len(e.pending)-1]
		r := start(e.setup, e.words, e.every)
		e.Runs++
		for _, i := range b.order {
			r.step(i)
		}
		for going := true; going; {
			b, going = e.visit(r, b)
		}
		r.stop()
		if r.changed {
			return false
		}
		if enough := r.scenario.Enough; enough != nil && enough() {
			break
		}
	}
	return true
}

// visit makes a branch's access, and looks where that leads. It returns how the run goes on, and keeps the other
// branches for later.
func (e *exploration) visit(r *run, b branch) (next branch, going bool) {
	if b.next >= 0 {
		r.step(b.next)
		b.order = append(slices.Clone(b.order), b.next)
	}
	running, state := r.running(), r.state()
	slept, again := e.visited[state]
	todo := running &^ b.sleep
	if again {
		todo &= slept
		e.visited[state] = slept & b.sleep
	} else {
		e.visited[state] = b.sleep
		if e.States++; running == 0 {
			e.Ends++
			hook.Interleave = nil
			r.scenario.Check()
		}
	}
	var branches []branch
	done := b.sleep
	for i := range r.actors {
		if todo.has(i) {
			branches = append(branches, branch{order: b.order, next: i, sleep: r.independent(i, done)})
			done |= 1 << i
		}
	}
	if len(branches) == 0 || r.changed {
		return branch{}, false
	}
	last := len(branches) - 1
	e.pending = append(e.pending, branches[:last]...)
	return branches[last], true
}

// Forget says that all that the running actor has seen so far no longer matters: from here on its local state is only
// at, a place in its code. It makes fewer states to explore.
func Forget(at string) { hook.Interleave(place(at), false) }

// place is a place in an actor's code.
type place string
