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
}

func (t *tree[T]) add(ns moqt.Namespace, v T) {
	for _, field := range ns {
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
}

// remove removes v, and the branches that held nothing else.
func (t *tree[T]) remove(ns moqt.Namespace, v T) {
	if len(ns) == 0 {
		delete(t.values, v)
		return
	}
	child := t.children[ns[0]]
	if child == nil {
		return
	}
	child.remove(ns[1:], v)
	if len(child.values) == 0 && len(child.children) == 0 {
		delete(t.children, ns[0])
	}
}

// at returns the values at ns itself.
func (t *tree[T]) at(ns moqt.Namespace) map[T]struct{} {
	for _, field := range ns {
		if t = t.children[field]; t == nil {
			return nil
		}
	}
	return t.values
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
		for _, field := range prefix {
			if t = t.children[field]; t == nil {
				return
			}
		}
		t.each(yield)
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
