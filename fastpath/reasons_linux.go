package fastpath

import (
	"fmt"
	"strings"
	"sync/atomic"

	"sluice/claim"
)

// reasonNames are the labels of what bpf/reason.h counts.
var reasonNames = [...]string{
	kernelReasonPACKET_OPENED:          "packet_opened",
	kernelReasonPACKET_NOT_MEDIA:       "packet_not_media",
	kernelReasonPACKET_LONG_HEADER:     "packet_long_header",
	kernelReasonPACKET_GSO:             "packet_gso",
	kernelReasonPACKET_TOO_SHORT:       "packet_too_short",
	kernelReasonPACKET_TOO_LONG:        "packet_too_long",
	kernelReasonPACKET_INACTIVE:        "packet_inactive",
	kernelReasonPACKET_NO_KEY:          "packet_no_key",
	kernelReasonPACKET_FORGED:          "packet_forged",
	kernelReasonPACKET_MALFORMED:       "packet_malformed",
	kernelReasonPACKET_UNKNOWN_FRAME:   "packet_unknown_frame",
	kernelReasonFRAME_FORWARDED:        "frame_forwarded",
	kernelReasonFRAME_NOT_MEDIA:        "frame_not_media",
	kernelReasonFRAME_NO_TRACK:         "frame_no_track",
	kernelReasonFRAME_ENDED:            "frame_ended",
	kernelReasonFRAME_CLAIMED:          "frame_claimed",
	kernelReasonFRAME_FORGOTTEN:        "frame_forgotten",
	kernelReasonFRAME_NO_SLOT:          "frame_no_slot",
	kernelReasonSEAL_AHEAD:             "seal_ahead",
	kernelReasonSEAL_COMPUTED:          "seal_computed",
	kernelReasonCOPY_SENT:              "copy_sent",
	kernelReasonCOPY_BUDGET:            "copy_budget",
	kernelReasonCOPY_NO_PATH:           "copy_no_path",
	kernelReasonCOPY_NO_NEIGHBOR:       "copy_no_neighbor",
	kernelReasonCOPY_NOT_OPEN:          "copy_not_open",
	kernelReasonCOPY_FILTERED:          "copy_filtered",
	kernelReasonCOPY_OUT_OF_ORDER:      "copy_out_of_order",
	kernelReasonCOPY_PRIORITY:          "copy_priority",
	kernelReasonCOPY_STREAM_LIMIT:      "copy_stream_limit",
	kernelReasonCOPY_STREAM_CREDIT:     "copy_stream_credit",
	kernelReasonCOPY_CONNECTION_CREDIT: "copy_connection_credit",
	kernelReasonCOPY_WINDOW:            "copy_window",
	kernelReasonCOPY_TOO_LARGE:         "copy_too_large",
	kernelReasonCOPY_LEDGER_FULL:       "copy_ledger_full",
	kernelReasonCOPY_CHECKSUM:          "copy_checksum",
	kernelReasonCOPY_LOST:              "copy_lost",
}

// Counts returns how often each reason was counted, by name.
func (k *kernel) Counts() (map[string]uint64, error) {
	counts := make(map[string]uint64, len(reasonNames))
	var perCPU []uint64
	for reason, name := range reasonNames {
		if err := k.ingress.Reasons.Lookup(uint32(reason), &perCPU); err != nil {
			return nil, fmt.Errorf("fast path: read the counter of %s: %w", name, err)
		}
		for _, n := range perCPU {
			counts[name] += n
		}
	}
	return counts, nil
}

// Copies returns what became of the copies that the kernel was to send to a subscriber, by reason: "sent", "window" and so on, the names of
// Counts that begin with copy_. It is nil if the fast path does not serve the connection.
func (f *FastPath) Copies(to claim.ForwarderConn) map[string]uint64 {
	c, _ := to.(*conn)
	if c == nil || !f.enter() {
		return nil
	}
	defer f.exit()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.copies
	}
	return f.kernel.Copies(c.index)
}

// Copies returns what became of the copies for a subscriber, see [FastPath.Copies].
func (k *kernel) Copies(index uint32) map[string]uint64 {
	counts := make(map[string]uint64)
	for i := range k.copies[index].ByReason {
		if n := atomic.LoadUint64(&k.copies[index].ByReason[i]); n > 0 {
			counts[strings.TrimPrefix(reasonNames[int(kernelReasonCOPY_SENT)+i], "copy_")] = n
		}
	}
	return counts
}
