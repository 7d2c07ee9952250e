// Package unlucky marks places at which the program may be unlucky: a read that brings one byte, a goroutine that comes
// late, a server that cannot be reached. In a build with the tag unlucky, a simulation has that happen at random, far
// more often than it does by itself (docs/simulation.md). In all other builds the marks are empty functions, of which
// the compiler leaves nothing.
//
// A place must not hold a lock when it may be late.
package unlucky
