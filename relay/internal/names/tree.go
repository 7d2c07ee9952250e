package names

import (
	"iter"

	"sluice/moqt"
)

// Tree finds values by place: the values at a place and its prefixes, or the values at and below a prefix. The zero
// value is empty.
type Tree[T comparable] struct {
	children map[string]*Tree[T]
	values   map[T]struct{}
	size     int // number of values, the children's included
}

func (t *Tree[T]) Add(ns moqt.Namespace, v T) {
	if t.Has(ns, v) {
		return
	}
	for _, field := range ns {
		t.size++
		if t.children == nil {
			t.children = make(map[string]*Tree[T])
		}
		child := t.children[field]
		if child == nil {
			child = new(Tree[T])
			t.children[field] = child
		}
		t = child
	}
	if t.values == nil {
		t.values = make(map[T]struct{})
	}
	t.values[v] = struct{}{}
	t.size++
}

// Remove removes v, and the branches that held nothing else. It reports whether v was there.
func (t *Tree[T]) Remove(ns moqt.Namespace, v T) (found bool) {
	if len(ns) == 0 {
		_, found = t.values[v]
		delete(t.values, v)
	} else if child := t.children[ns[0]]; child != nil {
		found = child.Remove(ns[1:], v)
		if child.size == 0 {
			delete(t.children, ns[0])
		}
	}
	if found {
		t.size--
	}
	return found
}

// branch returns the part of the tree at and below ns, or nil if there is none.
func (t *Tree[T]) branch(ns moqt.Namespace) *Tree[T] {
	for _, field := range ns {
		if t = t.children[field]; t == nil {
			return nil
		}
	}
	return t
}

// Has reports whether a value is at ns.
func (t *Tree[T]) Has(ns moqt.Namespace, v T) bool {
	_, ok := t.At(ns)[v]
	return ok
}

// At returns the values at ns itself.
func (t *Tree[T]) At(ns moqt.Namespace) map[T]struct{} {
	if t = t.branch(ns); t == nil {
		return nil
	}
	return t.values
}

// Count returns the number of values that Under yields, without a walk.
func (t *Tree[T]) Count(prefix moqt.Namespace) int {
	if t = t.branch(prefix); t == nil {
		return 0
	}
	return t.size
}

// Matching yields the values at ns and at its prefixes (Namespace Prefix Matching, draft §9.5).
func (t *Tree[T]) Matching(ns moqt.Namespace) iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := 0; t != nil; i++ {
			for v := range t.values {
				if !yield(v) {
					return
				}
			}
			if i == len(ns) {
				return
			}
			t = t.children[ns[i]]
		}
	}
}

// Matches returns the number of values that Matching yields.
func (t *Tree[T]) Matches(ns moqt.Namespace) int {
	n := len(t.values)
	for _, field := range ns {
		if t = t.children[field]; t == nil {
			break
		}
		n += len(t.values)
	}
	return n
}

// Under yields the values at prefix and at all namespaces that begin with it.
func (t *Tree[T]) Under(prefix moqt.Namespace) iter.Seq[T] {
	return func(yield func(T) bool) {
		if t := t.branch(prefix); t != nil {
			t.each(yield)
		}
	}
}

func (t *Tree[T]) each(yield func(T) bool) bool {
	for v := range t.values {
		if !yield(v) {
			return false
		}
	}
	for _, child := range t.children {
		if !child.each(yield) {
			return false
		}
	}
	return true
}
