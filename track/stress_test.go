package track

import (
	"time"
)

func each(stop chan struct{}, fn func()) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond):
			fn()
		}
	}
}
