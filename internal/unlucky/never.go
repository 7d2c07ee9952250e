//go:build !unlucky

package unlucky

import "io"

// Begin has places be unlucky from now on, by a seed. It returns a function that ends that.
func Begin(uint64) (end func()) { return func() {} }

// Happens reports whether something fails now that may fail.
func Happens() bool { return false }

// Late lets some time pass.
func Late() {}

// Reader returns a reader whose reads may bring less than there is.
func Reader(r io.Reader) io.Reader { return r }
