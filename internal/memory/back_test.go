package memory

import (
	"runtime"
	"testing"
)

// TestAfterCollections collects garbage twice.
func TestAfterCollections(t *testing.T) {
	collected := make(chan struct{}, 100)
	AfterCollections(func() { collected <- struct{}{} })
	for range 2 {
		runtime.GC()
		<-collected
	}
}
