//go:build unlucky

package unlucky

import (
	"io"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	often    = 16                    // one time of so many
	maxDelay = 50 * time.Millisecond // below all timeouts
)

var dice struct {
	mu   sync.Mutex
	rand *rand.Rand // nil: nothing happens
}

// Begin has places be unlucky from now on, by a seed. It returns a function that ends that.
func Begin(seed uint64) (end func()) {
	set := func(r *rand.Rand) {
		dice.mu.Lock()
		defer dice.mu.Unlock()
		dice.rand = r
	}
	set(rand.New(rand.NewPCG(seed, 0)))
	return func() { set(nil) }
}

// below returns a number from 0 to n-1, or n if nothing happens.
func below(n int) int {
	dice.mu.Lock()
	defer dice.mu.Unlock()
	if dice.rand == nil || dice.rand.IntN(often) > 0 {
		return n
	}
	return dice.rand.IntN(n)
}

// Happens reports whether something fails now that may fail.
func Happens() bool { return below(1) == 0 }

// Late lets some time pass.
func Late() {
	if d := below(int(maxDelay)); d < int(maxDelay) {
		time.Sleep(time.Duration(d))
	}
}

// Reader returns a reader whose reads may bring less than there is.
func Reader(r io.Reader) io.Reader { return reader{r} }

type reader struct{ io.Reader }

func (r reader) Read(b []byte) (int, error) {
	Late()
	if len(b) > 1 {
		b = b[:1+below(len(b)-1)]
	}
	return r.Reader.Read(b)
}
