//go:build !linux

package trial

import (
	"sluice/lab/sim"
	"sluice/server"
)

// forward does nothing: the fast path exists on Linux only.
func (s *service) forward(*server.Config, *sim.Conn, int) kernel { return nil }
