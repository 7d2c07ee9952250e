package trial

import (
	"fmt"
	"slices"
	"time"
)

// leakTime is how long relays and kernels may hold what nobody needs any more: connections to a relay that was killed
// end after half a minute, and the cache forgets a track later.
const leakTime = 3 * time.Minute

// transient are the gauges of a relay that are zero when all clients have left.
var transient = []string{
	"sluice_relay_tracks", "sluice_relay_upstream_subscriptions", "sluice_relay_downstream_subscriptions",
	"sluice_relay_cache_bytes", "sluice_relay_cache_groups", "sluice_relay_guests",
	"sluice_relay_open_requests",
	"sluice_media_open_streams", "sluice_media_followed_logs",
}

// transientRTSP are these gauges of a relay that serves RTSP.
var transientRTSP = []string{
	"sluice_rtsp_publishers", "sluice_rtsp_broadcasts", "sluice_rtsp_players", "sluice_rtsp_cache_bytes",
	"sluice_rtsp_memory_bytes",
}

// leaks has all clients leave, and returns what relays and kernels still hold after a while.
func (s *service) leaks() (faults []string) {
	s.mu.Lock()
	leaves := slices.Clone(s.leaves)
	s.mu.Unlock()
	for _, leave := range leaves {
		leave()
	}
	for begin := time.Now(); time.Since(begin) < leakTime; time.Sleep(time.Second) {
		if faults = s.held(); len(faults) == 0 {
			return nil
		}
	}
	return faults
}

// held returns what relays and kernels hold.
func (s *service) held() (faults []string) {
	for _, p := range s.running() {
		for _, f := range p.held() {
			faults = append(faults, fmt.Sprintf("relay %d: %s when all have left", p.relay, f))
		}
	}
	return faults
}

// held returns what the process holds, and the processes that it has replaced and that have not ended.
func (p *process) held() (faults []string) {
	gauges, names := p.gauges(), transient
	if p.rtsp != nil {
		names = slices.Concat(transient, transientRTSP)
	}
	if p.service.limits != (Limits{}) { // else there are quotas for other relays, too
		names = append(slices.Clone(names), "sluice_relay_accounts")
	}
	for _, name := range names {
		if value, known := gauges[name]; !known || value != 0 {
			faults = append(faults, fmt.Sprintf("%s is %v (known: %v)", name, value, known))
		}
	}
	if p.kernel != nil && p.kernel.Used() > 0 {
		faults = append(faults, fmt.Sprintf("%d streams of the kernel are not free", p.kernel.Used()))
	}
	for old := p.replaced; old != nil; old = old.replaced {
		if old.lives() {
			faults = append(faults, fmt.Sprintf("process %d has %d sessions", old.number,
				old.server.Relay().OpenSessions()))
		}
	}
	return faults
}
