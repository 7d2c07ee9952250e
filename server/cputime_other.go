//go:build !unix

package server

import "time"

// cpuTime is not known: only Linux tells when packets come, and nothing else asks.
func cpuTime() time.Duration { return 0 }
