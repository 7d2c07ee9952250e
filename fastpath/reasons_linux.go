package fastpath

import (
	"fmt"
	"strings"
	"sync/atomic"

	"sluice/claim"
	"sluice/fastpath/bpf"
)

// reasonNames are the labels of what bpf/reason.h counts.
var reasonNames = [...]string{
	bpf.IngressReasonPACKET_OPENED:          "packet_opened",
	bpf.IngressReasonPACKET_NOT_MEDIA:       "packet_not_media",
	bpf.IngressReasonPACKET_LONG_HEADER:     "packet_long_header",
	bpf.IngressReasonPACKET_GSO:             "packet_gso",
	bpf.IngressReasonPACKET_TOO_SHORT:       "packet_too_short",
	bpf.IngressReasonPACKET_TOO_LONG:        "packet_too_long",
	bpf.IngressReasonPACKET_INACTIVE:        "packet_inactive",
	bpf.IngressReasonPACKET_NO_KEY:          "packet_no_key",
	bpf.IngressReasonPACKET_FORGED:          "packet_forged",
	bpf.IngressReasonPACKET_MALFORMED:       "packet_malformed",
	bpf.IngressReasonPACKET_UNKNOWN_FRAME:   "packet_unknown_frame",
	bpf.IngressReasonFRAME_FORWARDED:        "frame_forwarded",
	bpf.IngressReasonFRAME_NOT_MEDIA:        "frame_not_media",
	bpf.IngressReasonFRAME_NO_TRACK:         "frame_no_track",
	bpf.IngressReasonFRAME_ENDED:            "frame_ended",
	bpf.IngressReasonFRAME_CLAIMED:          "frame_claimed",
	bpf.IngressReasonFRAME_FORGOTTEN:        "frame_forgotten",
	bpf.IngressReasonFRAME_NO_SLOT:          "frame_no_slot",
	bpf.IngressReasonSEAL_AHEAD:             "seal_ahead",
	bpf.IngressReasonSEAL_COMPUTED:          "seal_computed",
	bpf.IngressReasonCOPY_SENT:              "copy_sent",
	bpf.IngressReasonCOPY_BUDGET:            "copy_budget",
	bpf.IngressReasonCOPY_NO_PATH:           "copy_no_path",
	bpf.IngressReasonCOPY_NO_NEIGHBOR:       "copy_no_neighbor",
	bpf.IngressReasonCOPY_NOT_OPEN:          "copy_not_open",
	bpf.IngressReasonCOPY_FILTERED:          "copy_filtered",
	bpf.IngressReasonCOPY_OUT_OF_ORDER:      "copy_out_of_order",
	bpf.IngressReasonCOPY_PRIORITY:          "copy_priority",
	bpf.IngressReasonCOPY_STREAM_LIMIT:      "copy_stream_limit",
	bpf.IngressReasonCOPY_STREAM_CREDIT:     "copy_stream_credit",
	bpf.IngressReasonCOPY_CONNECTION_CREDIT: "copy_connection_credit",
	bpf.IngressReasonCOPY_WINDOW:            "copy_window",
	bpf.IngressReasonCOPY_TOO_LARGE:         "copy_too_large",
	bpf.IngressReasonCOPY_LEDGER_FULL:       "copy_ledger_full",
	bpf.IngressReasonCOPY_CHECKSUM:          "copy_checksum",
	bpf.IngressReasonCOPY_LOST:              "copy_lost",
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

// Copies returns what became of the copies that the kernel was to send to a subscriber, by reason: "sent", "window" and
// so on, the names of Counts that begin with copy_. It is nil if the fast path does not serve the connection.
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
			counts[strings.TrimPrefix(reasonNames[int(bpf.IngressReasonCOPY_SENT)+i], "copy_")] = n
		}
	}
	return counts
}
