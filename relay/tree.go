package relay

import (
	"iter"

	"sluice/moqt"
)

// tree finds values by place: the values at a place and its prefixes, or the values at and below a prefix. The zero
// value is empty.
type tree[T comparable] struct {
	children map[string]*tree[T]
	values   map[T]struct{}
	size     int // number of values, with those of the children
}

func (t *tree[T]) add(ns moqt.Namespace, v T) {
	if _, known := t.at(ns)[v]; known {
		return
	}
	for _, field := range ns {
		t.size++
		if t.children == nil {
			t.children = make(map[string]*tree[T])
		}
		child := t.children[field]
		if child == nil {
			child = new(tree[T])
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

// remove removes v, and the branches that held nothing else. It reports whether v was there.
func (t *tree[T]) remove(ns moqt.Namespace, v T) (found bool) {
	if len(ns) == 0 {
		_, found = t.values[v]
		delete(t.values, v)
	} else if child := t.children[ns[0]]; child != nil {
		found = child.remove(ns[1:], v)
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
func (t *tree[T]) branch(ns moqt.Namespace) *tree[T] {
	for _, field := range ns {
		if t = t.children[field]; t == nil {
			return nil
		}
	}
	return t
}

// at returns the values at ns itself.
func (t *tree[T]) at(ns moqt.Namespace) map[T]struct{} {
	if t = t.branch(ns); t == nil {
		return nil
	}
	return t.values
}

// count returns the number of values that under yields, without a walk.
func (t *tree[T]) count(prefix moqt.Namespace) int {
	if t = t.branch(prefix); t == nil {
		return 0
	}
	return t.size
}

// matching yields the values at ns and at its prefixes (Namespace Prefix Matching, draft §9.5).
func (t *tree[T]) matching(ns moqt.Namespace) iter.Seq[T] {
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

// under yields the values at prefix and at all namespaces that begin with it.
func (t *tree[T]) under(prefix moqt.Namespace) iter.Seq[T] {
	return func(yield func(T) bool) {
		if t := t.branch(prefix); t != nil {
			t.each(yield)
		}
	}
}

func (t *tree[T]) each(yield func(T) bool) bool {
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
