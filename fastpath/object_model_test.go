package fastpath

import "testing"

// A model of the claim of object datagrams (bpf/application/object.h, track_linux.go): one object, one subscriber,
// packets that bring the object to the kernel, user space, which handles it once, and the reclaimer. All orders of
// their steps are tried, and the kernel may decline.

// objectModel is a state. It is comparable.
type objectModel struct {
	entry, done, mark, raised bool
	sent                      int
	at                        [5]int // steps of the kernel's runs, of user space and of the reclaimer
}

const (
	modelKernels   = 3
	modelProcess   = modelKernels
	modelReclaimer = modelKernels + 1
	modelOver      = 100
)

// modelRules are the rules of the protocol; each can be broken.
type modelRules struct {
	insertFirst bool // the kernel looks at the first location after it has inserted
	raiseFirst  bool // the reclaimer raises it before it deletes
	awaitDone   bool // user space waits until the kernel is done
	full        bool // insertions may fail
}

// steps returns the states that follow when an actor takes its next step; none if it waits or has finished.
func (r modelRules) steps(s objectModel, actor int) []objectModel {
	switch {
	case actor < modelKernels:
		return r.kernel(s, actor)
	case actor == modelProcess:
		return r.process(s)
	}
	return r.reclaim(s)
}

func (s objectModel) to(actor, step int) objectModel {
	s.at[actor] = step
	return s
}

func (r modelRules) kernel(s objectModel, k int) []objectModel {
	const look, insert, send, mark, done = 0, 1, 2, 3, 4
	switch s.at[k] {
	case look: // in the protocol, of the track only
		if !r.insertFirst && s.raised {
			return []objectModel{s.to(k, modelOver)}
		}
		return []objectModel{s.to(k, insert)}
	case insert:
		if s.entry {
			return []objectModel{s.to(k, modelOver)}
		}
		next := s.to(k, send)
		next.entry, next.done, next.mark = true, false, false
		if r.full {
			return []objectModel{next, s.to(k, modelOver)}
		}
		return []objectModel{next}
	case send:
		if r.insertFirst && s.raised {
			return []objectModel{s.to(k, done)}
		}
		sent := s.to(k, mark)
		sent.sent++
		return []objectModel{sent, s.to(k, done)}
	case mark:
		s.mark = true
		return []objectModel{s.to(k, done)}
	case done:
		s.done = true
		return []objectModel{s.to(k, modelOver)}
	}
	return nil
}

func (r modelRules) process(s objectModel) []objectModel {
	const insert, raise, read, send = 0, 1, 2, 3
	switch s.at[modelProcess] {
	case insert:
		next := s.to(modelProcess, read)
		if !s.entry {
			next = s.to(modelProcess, send)
			next.entry, next.done, next.mark = true, true, false
			if r.full {
				return []objectModel{next, s.to(modelProcess, raise)}
			}
		}
		return []objectModel{next}
	case raise:
		s.raised = true
		return []objectModel{s.to(modelProcess, read)}
	case read:
		if s.entry && !s.done && r.awaitDone {
			return nil
		}
		if s.entry && s.mark {
			return []objectModel{s.to(modelProcess, modelOver)}
		}
		return []objectModel{s.to(modelProcess, send)}
	case send:
		s.sent++
		return []objectModel{s.to(modelProcess, modelOver)}
	}
	return nil
}

// reclaim forgets the object long after it was claimed. Both senders are done with it, but packets that repeat it may
// still come.
func (r modelRules) reclaim(s objectModel) []objectModel {
	step := s.at[modelReclaimer]
	if step > 1 || step == 0 && (!s.entry || !s.done || s.at[modelProcess] != modelOver) {
		return nil
	}
	if (step == 0) == r.raiseFirst {
		s.raised = true
	} else {
		s.entry = false
	}
	return []objectModel{s.to(modelReclaimer, step+1)}
}

// explore returns how many states there are, and a state with an object that was sent twice, or not at all.
func (r modelRules) explore() (states int, wrong *objectModel) {
	seen := map[objectModel]bool{{}: true}
	pending := []objectModel{{}}
	for len(pending) > 0 {
		s := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		moved := false
		for actor := range s.at {
			for _, next := range r.steps(s, actor) {
				moved = true
				if !seen[next] {
					seen[next] = true
					pending = append(pending, next)
				}
			}
		}
		if s.sent > 1 || !moved && s.sent == 0 {
			wrong = &s
		}
	}
	return len(seen), wrong
}

func TestObjectModel(t *testing.T) {
	for _, full := range []bool{false, true} {
		right := modelRules{insertFirst: true, raiseFirst: true, awaitDone: true, full: full}
		states, wrong := right.explore()
		t.Logf("%d states", states)
		if wrong != nil {
			t.Errorf("full %v: wrong: %+v", full, *wrong)
		}
		for name, broken := range map[string]modelRules{
			"the kernel looks too early":         {raiseFirst: true, awaitDone: true, full: full},
			"the claim is deleted too early":     {insertFirst: true, awaitDone: true, full: full},
			"user space does not wait for marks": {insertFirst: true, raiseFirst: true, full: full},
		} {
			if _, wrong := broken.explore(); wrong == nil {
				t.Errorf("full %v: the model does not notice that %s", full, name)
			}
		}
	}
}
