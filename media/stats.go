package media

import "sluice/congestion"

// Reason is why something was not sent, or not yet. Each has a counter.
type Reason uint8

// Reasons.
const (
	none  Reason = iota
	again        // nothing forbids it but other senders' turn

	BlockedPath    // the handshake is not confirmed
	BlockedKey     // there is no key, or it has protected as many packets as it may
	BlockedLedger  // the record of an outstanding packet would be overwritten
	BlockedWindow  // congestion window
	BlockedPacing  // the packet's time has not come
	BlockedConn    // connection flow control
	BlockedStream  // stream flow control
	BlockedStreams // stream limit

	DatagramLate        // delivery timeout
	DatagramTooLarge    // for the path, or for the peer
	DatagramUnsupported // by the peer
	DatagramQueueFull   // older than all others that wait
	DatagramDropped     // by the drop policy
	DatagramClosed      // with its subscription

	ECNUnanswered // no marked packet was acknowledged before a probe timeout: packets are not marked until one is
	ECNUnreported // the peer does not count marks: packets are no longer marked
	ECNBleached   // marks do not arrive: likewise
	ECNMangled    // all packets arrive marked as congested: likewise
	ECNMiscounted // the peer counts packets that were not sent: likewise

	ResetUnacknowledged // RESET_STREAM was not acknowledged in time, and is not sent again

	MTUBlackHole // the path no longer carries packets of the size that it had: they are smaller from here on
	numReasons
)

var reasonNames = [numReasons]string{
	"none", "again",
	"blocked_path", "blocked_key", "blocked_ledger", "blocked_window", "blocked_pacing",
	"blocked_conn_credit", "blocked_stream_credit", "blocked_streams",
	"datagram_late", "datagram_too_large", "datagram_unsupported",
	"datagram_queue_full", "datagram_dropped", "datagram_closed",
	"ecn_unanswered", "ecn_unreported", "ecn_bleached", "ecn_mangled", "ecn_miscounted",
	"reset_unacknowledged", "mtu_black_hole",
}

func (r Reason) String() string {
	if r < numReasons {
		return reasonNames[r]
	}
	return "unknown"
}

// Counters count what one sender, or all of a loop, have done.
type Counters struct {
	Packets          uint64 // sent by the media sender and the forwarder
	ForwarderPackets uint64 // of these, by the forwarder
	Bytes            uint64 // sent in QUIC packets
	LostPackets      uint64 // considered lost
	LostBytes        uint64
	SpuriousPackets  uint64 // considered lost, and acknowledged later
	Retransmissions  uint64 // packets that carried bytes of streams again
	PTOs             uint64
	Acks             uint64              // ACK frames that were received
	ReadAcks         uint64              // packets that the socket's reader has opened
	AckRequests      uint64              // ACK_FREQUENCY frames that were sent
	CongestedPackets uint64              // that the path has marked instead of dropping them (ECN-CE)
	Streams          uint64              // opened
	Datagrams        uint64              // sent
	Outcomes         [numOutcomes]uint64 // by Outcome
	Reasons          [numReasons]uint64  // by Reason
}

func (c *Counters) count(r Reason) { c.Reasons[r]++ }

func (c *Counters) add(d *Counters) {
	c.Packets += d.Packets
	c.ForwarderPackets += d.ForwarderPackets
	c.Bytes += d.Bytes
	c.LostPackets += d.LostPackets
	c.LostBytes += d.LostBytes
	c.SpuriousPackets += d.SpuriousPackets
	c.Retransmissions += d.Retransmissions
	c.PTOs += d.PTOs
	c.Acks += d.Acks
	c.ReadAcks += d.ReadAcks
	c.AckRequests += d.AckRequests
	c.CongestedPackets += d.CongestedPackets
	c.Streams += d.Streams
	c.Datagrams += d.Datagrams
	for i, n := range d.Outcomes {
		c.Outcomes[i] += n
	}
	for i, n := range d.Reasons {
		c.Reasons[i] += n
	}
}

// declined counts data that was not sent, or not to its end, because of the drop policy's limits.
func (c *Counters) declined() uint64 {
	return c.Outcomes[Dropped] + c.Reasons[DatagramDropped]
}

// Held returns the counters of reasons that are not zero, by name.
func (c *Counters) Held() map[string]uint64 {
	m := make(map[string]uint64)
	for r, n := range c.Reasons {
		if n > 0 {
			m[Reason(r).String()] = n
		}
	}
	return m
}

// Stats is a snapshot of a sender.
type Stats struct {
	congestion.State
	Counters
	CipherSuite uint16 // of TLS, see [tls.CipherSuiteName]; 0 before there are keys
	Controller  string // name of the congestion controller; "" before there is a path
	ECN         string // off, testing, paused or capable: whether packets have marks, and whether these arrive
	Threshold   Level  // of the drop policy
	BucketRate  int64  // at which its bucket fills, in bytes a second; 0: there is none
	Open        int    // streams that have not ended
	Ledger      int    // records that there is room for
}
