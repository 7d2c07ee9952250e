package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"

	"sluice/rtt/bpf"
	"sluice/rtt/report"
)

const eventSize = int(unsafe.Sizeof(bpf.MonitorEvent{}))

// A Decoder turns values of the kernel into values of package report.
type Decoder struct {
	Wall       func(kernel uint64) time.Time // converts the programs' clock
	Interfaces map[uint32]string             // names by index; nil: flows do not name the interface
	Sink       report.Sink                   // takes the events

	last report.Sample // is lent to the Sink: a new one for each RTT would be most of the garbage
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
	s := &d.last
	*s = report.Sample{
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

// Flows reads the flow table. A flow has one entry for each direction in which a packet was answered or waits for its
// reply.
func (d *Decoder) Flows(kernel *bpf.Monitor) ([]report.FlowState, error) {
	var states []report.FlowState
	keys, values := make([]bpf.MonitorFlowKey, flowsAtOnce), make([]bpf.MonitorFlow, flowsAtOnce)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := kernel.Maps[bpf.MonitorMapFlows].BatchLookup(&cursor, keys, values, nil)
		for i := range n {
			states = d.appendFlow(states, &keys[i], &values[i])
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return states, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (d *Decoder) appendFlow(
	states []report.FlowState, key *bpf.MonitorFlowKey, f *bpf.MonitorFlow,
) []report.FlowState {
	for i := range f.Side {
		own, peer := &f.Side[i], &f.Side[1-i]
		if bpf.MonitorSideState(own.State) == bpf.MonitorSideStateSIDE_IDLE {
			continue
		}
		s := report.FlowState{
			Ends: report.Ends{
				Source:      addrPort(key.Address[1-i], key.Port[1-i]),
				Destination: addrPort(key.Address[i], key.Port[i]),
				Protocol:    protocolName(key.Protocol),
				Interface:   d.Interfaces[key.Interface],
				VLAN:        report.VLAN{ID: key.Vlan, Inner: key.InnerVlan},
				VNI:         vni(key.Vni),
			},
			SmoothedRTT:  time.Duration(own.SmoothedRtt),
			MinRTT:       time.Duration(own.MinRtt),
			Sent:         report.Traffic{Packets: own.Packets, Bytes: own.Bytes},
			Received:     report.Traffic{Packets: peer.Packets, Bytes: peer.Bytes},
			OneDirection: peer.Packets == 0,
		}
		if s.Protocol == "TCP" {
			s.Retransmissions = uint64(f.Tcp.Side[i].Retransmissions)
		}
		states = append(states, s)
	}
	return states
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

// flowsAtOnce is the number of flows that one system call reads.
const flowsAtOnce = 4096

// vni returns a number of three bytes in network order.
func vni(b [3]uint8) uint32 { return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }
