package command

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/rogpeppe/go-internal/testscript"

	"sluice/internal/cli/clitest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"sluice-rtt": func() { os.Exit(Main()) }})
}

func TestScripts(t *testing.T) {
	clitest.Run(t, map[string]clitest.Command{"collect": clitest.Collect, "rise": rise})
}

// rise is "rise FILE": it writes a capture of pings, 25 a second, whose RTT is 10 ms for 30 s and then 40 ms for 10 s.
func rise(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: rise FILE")
	}
	file, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	w := pcapgo.NewWriterNanos(file)
	ts.Check(w.WriteFileHeader(1<<16, layers.LinkTypeRaw))
	began := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for at := time.Duration(0); at < 40*time.Second; at += 40 * time.Millisecond {
		rtt := 10 * time.Millisecond
		if at >= 30*time.Second {
			rtt = 40*time.Millisecond - 1
		}
		sequence := uint16(at / (40 * time.Millisecond))
		writePing(ts, w, began.Add(at), layers.ICMPv4TypeEchoRequest, sequence)
		writePing(ts, w, began.Add(at+rtt), layers.ICMPv4TypeEchoReply, sequence)
	}
	ts.Check(file.Close())
}

// writePing writes a request of 192.0.2.1 to 198.51.100.1, or the reply.
func writePing(ts *testscript.TestScript, w *pcapgo.Writer, at time.Time, what uint8, sequence uint16) {
	ip := &layers.IPv4{
		Version: 4, TTL: 64, Protocol: layers.IPProtocolICMPv4,
		SrcIP: net.IPv4(192, 0, 2, 1).To4(), DstIP: net.IPv4(198, 51, 100, 1).To4(),
	}
	if what == layers.ICMPv4TypeEchoReply {
		ip.SrcIP, ip.DstIP = ip.DstIP, ip.SrcIP
	}
	icmp := &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(what, 0), Id: 7, Seq: sequence}
	b := gopacket.NewSerializeBuffer()
	ts.Check(gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, ip, icmp))
	info := gopacket.CaptureInfo{Timestamp: at, CaptureLength: len(b.Bytes()), Length: len(b.Bytes())}
	ts.Check(w.WritePacket(info, b.Bytes()))
}
