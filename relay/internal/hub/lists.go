package hub

import "iter"

// where yields the values of a list that satisfy is.
func where[T any](list iter.Seq[T], is func(T) bool) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range list {
			if is(v) && !yield(v) {
				return
			}
		}
	}
}

// some reports whether a value of a list satisfies is.
func some[T any](list iter.Seq[T], is func(T) bool) bool {
	for range where(list, is) {
		return true
	}
	return false
}

// count returns the length of a list.
func count[T any](list iter.Seq[T]) (n int) {
	for range list {
		n++
	}
	return n
}
