package rtt

import (
	"errors"
	"time"

	"github.com/cilium/ebpf"

	"sluice/internal/rtt/bpf"
)

// flowsAtOnce is how many flows are read by one system call.
const flowsAtOnce = 4096

// Flows reads the flow table: the directions in which something waits for a reply or was answered.
func (m *Monitor) Flows() ([]FlowState, error) {
	var states []FlowState
	keys, values := make([]bpf.MonitorFlowKey, flowsAtOnce), make([]bpf.MonitorFlow, flowsAtOnce)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.kernel.Maps[bpf.MonitorMapFlows].BatchLookup(&cursor, keys, values, nil)
		for i := range n {
			states = m.appendFlow(states, &keys[i], &values[i])
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return states, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (m *Monitor) appendFlow(states []FlowState, key *bpf.MonitorFlowKey, f *bpf.MonitorFlow) []FlowState {
	for i := range f.Side {
		own, peer := &f.Side[i], &f.Side[1-i]
		if bpf.MonitorSideState(own.State) == bpf.MonitorSideStateSIDE_IDLE {
			continue
		}
		s := FlowState{
			Ends: Ends{
				Source:      addrPort(key.Address[1-i], key.Port[1-i]),
				Destination: addrPort(key.Address[i], key.Port[i]),
				Protocol:    protocolName(key.Protocol),
				Interface:   m.decode.interfaces[key.Interface],
				VLAN:        key.Vlan,
			},
			SmoothedRTT: time.Duration(own.SmoothedRtt),
			MinRTT:      time.Duration(own.MinRtt),
			Sent:        Traffic{own.Packets, own.Bytes},
			Received:    Traffic{peer.Packets, peer.Bytes},
			LastPacket:  m.clock.time(own.Seen),
		}
		if s.Protocol == "TCP" {
			s.Retransmissions = uint64(f.Tcp[i].Retransmissions)
		}
		states = append(states, s)
	}
	return states
}
