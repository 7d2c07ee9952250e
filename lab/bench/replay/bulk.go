package replay

import (
	"time"

	"sluice/clock"
	"sluice/congestion"
)

const (
	bulkPacket  = 1350
	reordering  = 3 // packets (RFC 9002 §6.1.1)
	bulkTimeout = time.Second
)

// bulkFlow is a download that shares the bottleneck: it always has something to send, and its congestion control is
// CUBIC.
type bulkFlow struct {
	simulation *simulation
	controller congestion.Controller
	rtt        congestion.RTT
	packets    []bulkSent // that are in flight, in the order of their numbers
	next       int        // packet number
	inFlight   int        // bytes
	progress   clock.Time // when the last ACK came
	watching   bool
}

type bulkSent struct {
	number int
	at     clock.Time
}

// send fills the window.
func (f *bulkFlow) send() {
	s := f.simulation
	for f.inFlight+bulkPacket <= f.controller.Window() {
		p := bulkSent{f.next, s.clock.now}
		f.next++
		f.inFlight += bulkPacket
		f.packets = append(f.packets, p)
		s.transmit(bulkPacket, func() { s.back(func() { f.acked(p) }) })
	}
	f.watch()
}

// acked takes the ACK of one packet. Those before it that are overdue are lost.
func (f *bulkFlow) acked(p bulkSent) {
	now := f.simulation.clock.now
	f.progress = now
	f.rtt.Update(now, now.Sub(p.at), 0)
	before, lost := f.inFlight, 0
	var newest clock.Time
	for len(f.packets) > 0 && f.packets[0].number <= p.number-reordering {
		newest = f.packets[0].at
		f.packets = f.packets[1:]
		lost++
	}
	found := false
	for i, q := range f.packets {
		if found = q.number == p.number; found {
			f.packets = append(f.packets[:i:i], f.packets[i+1:]...)
			break
		}
	}
	f.inFlight = len(f.packets) * bulkPacket
	if lost > 0 {
		f.controller.Lost(congestion.LossEvent{
			Now: now, Packets: lost, Bytes: lost * bulkPacket, Sent: newest, InFlight: before,
		})
	}
	if found {
		f.controller.Acked(congestion.AckEvent{
			Now: now, Bytes: bulkPacket, First: p.at, Sent: p.at, InFlight: before,
			LatestRTT: f.rtt.Latest, SRTT: f.rtt.Smoothed, MinRTT: f.rtt.Min,
		})
	}
	f.send()
}

// watch gives up the packets in flight when no ACK has come for long.
func (f *bulkFlow) watch() {
	s := f.simulation
	if f.watching || len(f.packets) == 0 {
		return
	}
	f.watching = true
	s.plan(s.clock.now.Add(bulkTimeout), func() {
		f.watching = false
		if now := s.clock.now; len(f.packets) > 0 && now.Sub(f.progress) >= bulkTimeout {
			n := len(f.packets)
			f.controller.Lost(congestion.LossEvent{
				Now: now, Packets: n, Bytes: n * bulkPacket, Sent: f.packets[n-1].at, InFlight: f.inFlight,
				Persistent: true,
			})
			f.packets, f.inFlight, f.progress = nil, 0, now
		}
		f.send()
	})
}
