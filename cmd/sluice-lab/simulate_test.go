package main

import (
	"encoding/json"
	"os"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/rogpeppe/go-internal/testscript"

	"sluice/lab/sim/trial"
	"sluice/moqt"
	"sluice/rtt/pcap"
)

// readCapture implements the command capture FILE: all frames are whole, and from and to the hosts of a simulation.
func readCapture(ts *testscript.TestScript, _ bool, args []string) {
	file, err := os.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	defer file.Close()
	r, err := pcap.NewReader(file)
	ts.Check(err)
	packets := 0
	for p, err := r.Read(); err == nil; p, err = r.Read() {
		frame := gopacket.NewPacket(p.Frame, layers.LayerTypeEthernet, gopacket.Default)
		udp, ok := frame.Layer(layers.LayerTypeUDP).(*layers.UDP)
		if !ok || frame.ErrorLayer() != nil || len(udp.Payload) == 0 || p.At.Year() != 2000 {
			ts.Fatalf("packet %d: %v: %v", packets, p.At, frame)
		}
		if udp.SrcPort != 4443 && udp.DstPort != 4443 {
			ts.Fatalf("packet %d is neither from a relay nor to one: %v", packets, frame)
		}
		packets++
	}
	if packets < 100 {
		ts.Fatalf("the capture has only %d packets", packets)
	}
}

// writeSchedules implements the command schedules: it writes a good one, one that is not valid, and one that loses
// objects.
func writeSchedules(ts *testscript.TestScript, _ bool, _ []string) {
	perfect := trial.Client{Scheme: "moqt", Version: moqt.Versions()[0]}
	s := &trial.Schedule{
		Upstream: [][]int{nil, {1}}, Paths: []trial.Path{{Relay: 2, Upstream: 1}},
		Media:   trial.Media{Groups: 4, Objects: 10, Pause: 20 * time.Millisecond, Publisher: perfect},
		Viewers: []trial.Viewer{{Number: 1, Client: perfect}, {Number: 2, Client: perfect}},
	}
	rebind := trial.Mishap{What: trial.Rebind, Viewer: 1}
	for name, mishaps := range map[string][]trial.Mishap{
		"good.json": {rebind},
		"bad.json":  {{What: trial.Kill, Relay: 1}},
		"lost.json": {rebind, {What: trial.Cut, Relay: 2, Upstream: 1, Lasts: time.Hour}},
	} {
		s.Mishaps = mishaps
		b, err := json.Marshal(s)
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(name), b, 0o644))
	}
}
