package rtt

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"
	"unsafe"

	"sluice/internal/rtt/bpf"
)

const eventSize = int(unsafe.Sizeof(bpf.MonitorEvent{}))

// decoder turns the kernel's events into records.
type decoder struct {
	wall       func(kernel uint64) time.Time
	interfaces map[uint32]string // nil: records do not name the interface
	sink       Sink
}

// decode hands the events of one ring buffer record to the sink.
func (d *decoder) decode(raw []byte) error {
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

func (d *decoder) event(e *bpf.MonitorEvent) error {
	switch bpf.MonitorEventType(e.Type) {
	case bpf.MonitorEventTypeEVENT_RTT:
		return d.sample(e)
	case bpf.MonitorEventTypeEVENT_OPENING:
		return d.flow(e, true, openReasons[:])
	case bpf.MonitorEventTypeEVENT_CLOSING:
		return d.flow(e, false, closeReasons[:])
	}
	return fmt.Errorf("event of unknown type %d", e.Type)
}

var (
	openReasons  = [...]Reason{ReasonSYN, ReasonSYNACK, ReasonFirstPacket}
	closeReasons = [...]Reason{ReasonFIN, ReasonRST, ReasonTimeout, ReasonSYN}
	triggers     = [...]Trigger{TriggerSource, TriggerDestination, TriggerCleanup}
	methods      = [...]Method{MethodTimestamp, MethodSequence, MethodEcho, MethodQuery, MethodHandshake, MethodSpin}
)

func (d *decoder) sample(e *bpf.MonitorEvent) error {
	if int(e.Method) >= len(methods) {
		return fmt.Errorf("RTT by unknown method %d", e.Method)
	}
	s := &Sample{
		Ends:            d.ends(e),
		Time:            d.wall(e.Time),
		Method:          methods[e.Method],
		RTT:             time.Duration(e.Rtt),
		MinRTT:          time.Duration(e.MinRtt),
		Sent:            Traffic{e.SentPackets, e.SentBytes},
		Received:        Traffic{e.ReceivedPackets, e.ReceivedBytes},
		OnEgress:        e.Egress != 0,
		Retransmissions: e.Retransmissions,
	}
	switch s.Method {
	case MethodQuery:
		s.Protocol = "DNS"
		s.DNS = &DNS{
			Type:      e.QueryType,
			RCode:     e.Rcode,
			Truncated: e.Flags&uint8(bpf.MonitorEventFlagEVENT_TRUNCATED) != 0,
			Ambiguous: e.Flags&uint8(bpf.MonitorEventFlagEVENT_AMBIGUOUS) != 0,
		}
	case MethodHandshake, MethodSpin:
		s.QUIC = &QUIC{Near: time.Duration(e.NearRtt), Far: time.Duration(e.FarRtt)}
	}
	return d.sink.Sample(s)
}

func (d *decoder) flow(e *bpf.MonitorEvent, opening bool, reasons []Reason) error {
	if int(e.Reason) >= len(reasons) || int(e.Trigger) >= len(triggers) {
		return fmt.Errorf("flow event with unknown reason %d or trigger %d", e.Reason, e.Trigger)
	}
	return d.sink.Flow(&FlowEvent{
		Ends:    d.ends(e),
		Time:    d.wall(e.Time),
		Opening: opening,
		Reason:  reasons[e.Reason],
		Trigger: triggers[e.Trigger],
	})
}

func (d *decoder) ends(e *bpf.MonitorEvent) Ends {
	return Ends{
		Source:      addrPort(e.Source, e.SourcePort),
		Destination: addrPort(e.Destination, e.DestinationPort),
		Protocol:    protocolName(e.Protocol),
		Interface:   d.interfaces[e.Interface],
		VLAN:        e.Vlan,
	}
}

// addrPort reads an address and a port that are in network order.
func addrPort(a bpf.MonitorAddress, port uint16) netip.AddrPort {
	var b [2]byte
	binary.NativeEndian.PutUint16(b[:], port)
	return netip.AddrPortFrom(netip.AddrFrom16(a.Bytes).Unmap(), binary.BigEndian.Uint16(b[:]))
}

// protocolName names the protocol of a flow; of UDP only QUIC has flows.
func protocolName(protocol uint8) string {
	switch protocol {
	case 1:
		return "ICMP"
	case 6:
		return "TCP"
	case 17:
		return "QUIC"
	case 58:
		return "ICMPv6"
	}
	return fmt.Sprintf("protocol %d", protocol)
}
