package kernel

import (
	"errors"
	"time"

	"github.com/cilium/ebpf"

	"sluice/rtt/bpf"
	"sluice/rtt/report"
)

// flowsAtOnce is the number of flows that one system call reads.
const flowsAtOnce = 4096

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
			LastPacket:   d.Wall(own.Seen),
			OneDirection: peer.Packets == 0,
		}
		if s.Protocol == "TCP" {
			s.Retransmissions = uint64(f.Tcp.Side[i].Retransmissions)
		}
		states = append(states, s)
	}
	return states
}

// vni returns a number of three bytes in network order.
func vni(b [3]uint8) uint32 { return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }
