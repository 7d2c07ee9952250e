// Package fastpathtest judges the kernel's forwarding of media, for tests. On a busy machine user space may be late
// with the kernel's data, and then sends by itself; the kernel's counters say so. [Judge] accepts that and nothing
// else.
package fastpathtest

import (
	"fmt"
	"maps"
	"slices"

	"sluice/media"
)

// A Look is one look at the counters of a relay.
type Look struct {
	Reasons map[string]uint64 // of the programs: FastPath.Counts
	Media   media.Counters
}

// ordinary are the reasons of packets and frames that are forwarded, and of packets without media.
var ordinary = []string{
	"packet_opened", "packet_not_media", "packet_long_header", "packet_inactive", "open_ahead", "open_computed",
	"frame_forwarded", "frame_empty", "seal_ahead", "seal_computed", "copy_sent", "copy_empty",
}

// late are the reasons that a busy machine causes: ACKs, credit or memory come late, or the path has just begun to
// carry larger packets.
var late = []string{
	"copy_window", "copy_paced", "copy_ledger_full", "copy_stream_limit", "copy_stream_credit",
	"copy_connection_credit", "copy_no_slot", "copy_stream_share", "frame_no_slot", "copy_too_large",
}

// following are the reasons of frames behind a declined one in their stream, and of frames that come again. Without a
// decline before them, the media sender has nothing to send.
var following = []string{"copy_out_of_order", "copy_not_open", "frame_not_media", "frame_ended"}

// HeaderApart is the reason of frames behind one with a part of a SUBGROUP_HEADER. A publisher over WebTransport writes
// the header of the stream and SUBGROUP_HEADER one after the other, and a busy machine may send a packet between them.
const HeaderApart = "frame_not_media"

// Judge returns an error unless each frame of a publisher between two looks was forwarded, or declined because user
// space was late, because fewer packets came early than were sent, or for one of some more reasons. Without such a
// decline the media sender sends no media for the first time. There must be media.
func Judge(before, after Look, more ...string) error {
	happened := difference(before.Reasons, after.Reasons)
	for name := range happened {
		if !slices.Contains(slices.Concat(ordinary, late, following), name) {
			return fmt.Errorf("the kernel declines for %s: %v", name, happened)
		}
	}
	declined := slices.ContainsFunc(slices.Concat(late, more), func(name string) bool { return happened[name] > 0 })
	if early := happened["copy_out_of_order"]; early < happened["copy_sent"] { // packets have overtaken others
		declined = declined || early > 0
	}
	if happened["copy_sent"] == 0 && !declined {
		return fmt.Errorf("the kernel sends nothing, and user space is in time: %v", happened)
	}
	a, b := before.Media, after.Media
	first := int64(b.Packets-a.Packets) - int64(b.ForwarderPackets-a.ForwarderPackets) -
		int64(b.Retransmissions-a.Retransmissions) - int64(b.AckRequests-a.AckRequests)
	if first > 0 && b.PTOs == a.PTOs && !declined {
		return fmt.Errorf("user space sends %d packets, and is in time: %v", first, happened)
	}
	return nil
}

// Late reports whether user space was late between two looks, so that the kernel has declined.
func Late(before, after Look) bool {
	happened := difference(before.Reasons, after.Reasons)
	return slices.ContainsFunc(late, func(name string) bool { return happened[name] > 0 })
}

// difference returns how often each reason was counted between two looks, without the reasons that were not.
func difference(before, after map[string]uint64) map[string]uint64 {
	d := maps.Clone(after)
	for name := range d {
		if d[name] -= before[name]; d[name] == 0 {
			delete(d, name)
		}
	}
	return d
}
