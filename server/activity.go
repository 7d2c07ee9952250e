package server

import (
	"sluice/media"
	"sluice/relay"
	"sluice/server/cluster"
)

// Activity is what a server does now, and has done since its start, without its single sessions.
type Activity struct {
	Sessions  int
	Overview  relay.Overview
	Media     media.LoopStats
	Delays    Delays
	FastPath  map[string]uint64 // what the kernel has done, by reason; nil without the fast path
	Guests    []relay.GuestStatus
	Upstreams []UpstreamStatus
	Cluster   *cluster.Status // nil: not in a cluster
}

// Activity describes what the server does. It has delays measured, see [Server.Delays].
func (s *Server) Activity() (a Activity, err error) {
	a = Activity{
		Sessions: s.relay.OpenSessions(), Overview: s.relay.Overview(), Media: s.loop.Stats(),
		Guests: s.relay.Guests(), Upstreams: s.upstreams.status(),
	}
	if a.Delays, err = s.Delays(); err != nil {
		return a, err
	}
	if a.FastPath, err = s.fastPath.counts(); err != nil {
		return a, err
	}
	if s.mesh != nil {
		status := s.mesh.node.Status()
		a.Cluster = &status
	}
	return a, nil
}
