package kernel

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"
	"unsafe"

	"sluice/rtt/bpf"
	"sluice/rtt/report"
)

const eventSize = int(unsafe.Sizeof(bpf.MonitorEvent{}))

// A Decoder turns values of the kernel into values of package report.
type Decoder struct {
	Wall       func(kernel uint64) time.Time // converts the programs' clock
	Interfaces map[uint32]string             // names by index; nil: flows do not name the interface
	Sink       report.Sink                   // takes the events
}

// Decode passes the events of one record of the ring buffer to the Sink.
func (d *Decoder) Decode(raw []byte) error {
	if len(raw)%eventSize != 0 {
		return fmt.Errorf("%d bytes of events: not a multiple of %d", len(raw), eventSize)
	}
	for ; len(raw) > 0; raw = raw[eventSize:] {
		var e bpf.MonitorEvent
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&e)), eventSize), raw)
		if err := d.event(&e); err != nil {
			return err
		}
	}
	return nil
}

func (d *Decoder) event(e *bpf.MonitorEvent) error {
	switch bpf.MonitorEventType(e.Type) {
	case bpf.MonitorEventTypeEVENT_RTT:
		return d.sample(e)
	case bpf.MonitorEventTypeEVENT_OPENING:
		return d.flowEvent(e, true, openReasons[:])
	case bpf.MonitorEventTypeEVENT_CLOSING:
		return d.flowEvent(e, false, closeReasons[:])
	}
	return fmt.Errorf("event of unknown type %d", e.Type)
}

var (
	openReasons  = [...]report.Reason{report.ReasonSYN, report.ReasonSYNACK, report.ReasonFirstPacket}
	closeReasons = [...]report.Reason{report.ReasonFIN, report.ReasonRST, report.ReasonTimeout, report.ReasonSYN}
	triggers     = [...]report.Trigger{report.TriggerSource, report.TriggerDestination, report.TriggerCleanup}
	methods      = [...]report.Method{
		report.MethodTimestamp, report.MethodSequence, report.MethodEcho, report.MethodQuery, report.MethodHandshake,
		report.MethodSpin, report.MethodQuery, report.MethodQuery,
	}
	// queries are the protocols of the methods that are MethodQuery.
	queries = map[bpf.MonitorMethod]string{
		bpf.MonitorMethodMETHOD_DNS: "DNS", bpf.MonitorMethodMETHOD_NTP: "NTP", bpf.MonitorMethodMETHOD_STUN: "STUN",
	}
)

func (d *Decoder) sample(e *bpf.MonitorEvent) error {
	if int(e.Method) >= len(methods) {
		return fmt.Errorf("RTT by unknown method %d", e.Method)
	}
	s := &report.Sample{
		Ends:            d.ends(e),
		Time:            d.Wall(e.Time),
		Method:          methods[e.Method],
		RTT:             time.Duration(e.Rtt),
		MinRTT:          time.Duration(e.MinRtt),
		Sent:            report.Traffic{Packets: e.SentPackets, Bytes: e.SentBytes},
		Received:        report.Traffic{Packets: e.ReceivedPackets, Bytes: e.ReceivedBytes},
		OnEgress:        e.Egress != 0,
		Retransmissions: e.Retransmissions,
		Ambiguous:       e.Flags&uint8(bpf.MonitorEventFlagEVENT_AMBIGUOUS) != 0,
		OneDirection:    e.Flags&uint8(bpf.MonitorEventFlagEVENT_ONE_DIRECTION) != 0,
	}
	method := bpf.MonitorMethod(e.Method)
	if protocol, ok := queries[method]; ok {
		s.Protocol = protocol
	}
	switch method {
	case bpf.MonitorMethodMETHOD_DNS:
		s.DNS = &report.DNS{
			Type:      e.QueryType,
			RCode:     e.Rcode,
			Truncated: e.Flags&uint8(bpf.MonitorEventFlagEVENT_TRUNCATED) != 0,
			OverTCP:   e.Protocol == protocolTCP,
		}
	case bpf.MonitorMethodMETHOD_HANDSHAKE, bpf.MonitorMethodMETHOD_SPIN:
		if e.Protocol == protocolUDP {
			s.QUIC = newQUIC(e)
		}
	}
	return d.Sink.Sample(s)
}

// newQUIC divides an RTT, if it is of both directions of the spin bit.
func newQUIC(e *bpf.MonitorEvent) *report.QUIC {
	if e.FarRtt == 0 {
		return new(report.QUIC)
	}
	return &report.QUIC{Near: time.Duration(e.Rtt - e.FarRtt), Far: time.Duration(e.FarRtt)}
}

func (d *Decoder) flowEvent(e *bpf.MonitorEvent, opening bool, reasons []report.Reason) error {
	if int(e.Reason) >= len(reasons) || int(e.Trigger) >= len(triggers) {
		return fmt.Errorf("flow event with unknown reason %d or trigger %d", e.Reason, e.Trigger)
	}
	return d.Sink.Flow(&report.FlowEvent{
		Ends:    d.ends(e),
		Time:    d.Wall(e.Time),
		Opening: opening,
		Reason:  reasons[e.Reason],
		Trigger: triggers[e.Trigger],
	})
}

func (d *Decoder) ends(e *bpf.MonitorEvent) report.Ends {
	return report.Ends{
		Source:      addrPort(e.Source, e.SourcePort),
		Destination: addrPort(e.Destination, e.DestinationPort),
		Protocol:    protocolName(e.Protocol),
		Interface:   d.Interfaces[e.Interface],
		VLAN:        report.VLAN{ID: e.Vlan, Inner: e.InnerVlan},
		VNI:         e.Vni,
	}
}

// addrPort converts an address and a port in network byte order.
func addrPort(a bpf.MonitorAddress, port uint16) netip.AddrPort {
	var b [2]byte
	binary.NativeEndian.PutUint16(b[:], port)
	return netip.AddrPortFrom(netip.AddrFrom16(a.Bytes).Unmap(), binary.BigEndian.Uint16(b[:]))
}

// Numbers of protocols.
const (
	protocolTCP = 6
	protocolUDP = 17
)

// protocolName returns the name of a flow's protocol. QUIC is the only protocol over UDP that has flows.
func protocolName(protocol uint8) string {
	switch protocol {
	case 1:
		return "ICMP"
	case protocolTCP:
		return "TCP"
	case protocolUDP:
		return "QUIC"
	case 58:
		return "ICMPv6"
	}
	return fmt.Sprintf("protocol %d", protocol)
}
