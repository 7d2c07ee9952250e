// Package replay tries drop policies and congestion controllers on mock media and simulated paths, without a network.
//
// A [Trace] is the objects that a publisher sent, and how the path to a subscriber behaved. [Run] replays one: the
// media sender of the relay (package media) sends the objects over a simulated bottleneck to a simulated subscriber,
// which opens the packets, acknowledges them, and notes when each object was complete. From that, package playback
// computes what a viewer would have seen. [Compare] does so for several traces and subjects, and makes a report of the
// benchmark.
//
//	Trace.Objects ──► logs ──► media.Sender ──► path ──► receiver ──► playback.Score
//	                               ▲             ▲          │
//	                               └─── ACKs ────┼──────────┘
//	Trace.Path ──────────────────────────────────┘
//
// Of a trace with renditions, the relay chooses one, by the rule of package rendition.
// An oracle, which knows the path, stands beside the policies (oracle.go): it shows how much better one could be.
//
// Time is simulated ([media.Stepped]), and everything random has a seed, so a replay gives the same result whenever and
// wherever it runs. There is no fast path: objects that it would send at once, the media sender sends at once.
package replay
