package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/rogpeppe/go-internal/testscript"

	"sluice/internal/certtest"
	"sluice/internal/cli/clitest"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"sluice": main}) }

func TestScripts(t *testing.T) {
	clitest.Run(t, map[string]clitest.Command{
		"envfile": envFile, "collect": collect, "rise": rise,
		"certify": func(ts *testscript.TestScript, _ bool, _ []string) { certify(t, ts) },
	})
}

// certify is "certify": it sets CA, CERT and KEY to files with a certificate for this machine, and its authority.
func certify(t *testing.T, ts *testscript.TestScript) {
	files := certtest.New(t).Issue(t)
	ts.Setenv("CA", files.CA)
	ts.Setenv("CERT", files.Cert)
	ts.Setenv("KEY", files.Key)
}

// envFile is "envfile NAME FILE": it sets a variable to the content of a file, without the spaces around it.
func envFile(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: envfile NAME FILE")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}

// collect is "collect NAME FILE": it starts an HTTP service that appends what is posted to it to a file, and sets a
// variable to its URL. The first POST fails.
func collect(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: collect NAME FILE")
	}
	file, err := os.Create(ts.MkAbs(args[1]))
	ts.Check(err)
	failed := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !failed {
			failed = true
			http.Error(w, "not yet", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.Copy(file, r.Body)
	}))
	ts.Defer(func() {
		server.Close()
		_ = file.Close()
	})
	ts.Setenv(args[0], server.URL)
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
