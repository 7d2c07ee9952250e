package trial

import (
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
