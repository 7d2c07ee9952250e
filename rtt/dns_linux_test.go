package rtt

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab"
	"sluice/lab/labtest"
	"sluice/rtt/internal/wire"
	"sluice/rtt/report"
)

// startResolver runs dnsmasq inside a host until the test ends: example.test has an address, nothing else in test
// exists, and all else is refused.
func startResolver(t *testing.T, h *lab.Host, at netip.Addr) {
	if _, err := exec.LookPath("dnsmasq"); err != nil {
		if os.Getenv("SLUICE_REQUIRE_KERNEL") != "" {
			t.Fatal("needs dnsmasq (package dnsmasq-base)")
		}
		t.Skip("needs dnsmasq (package dnsmasq-base)")
	}
	cmd := exec.Command("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts",
		"--no-dhcp-interface=*", "--user=root", "--pid-file=", "--bind-interfaces", "--listen-address="+at.String(),
		"--address=/example.test/192.0.2.7", "--local=/test/")
	require.NoError(t, h.Start(cmd))
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
	})
}

// lookup asks over UDP until there is an answer, so that it also waits for the resolver to start.
func lookup(t *testing.T, h *lab.Host, server netip.AddrPort, q wire.DNS) (answer []byte) {
	conn, err := h.ListenUDP(netip.AddrPort{})
	require.NoError(t, err)
	defer conn.Close()
	buf := make([]byte, 1500)
	for {
		_, err := conn.WriteToUDPAddrPort(q.Message(), server)
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Second)))
		if n, err := conn.Read(buf); err == nil {
			return buf[:n]
		}
		require.NoError(t, t.Context().Err())
	}
}

// lookupTCP asks several questions over one connection.
func lookupTCP(t *testing.T, h *lab.Host, server netip.AddrPort, questions ...wire.DNS) {
	var c net.Conn
	require.NoError(t, h.Do(func() (err error) {
		c, err = net.DialTCP("tcp4", nil, net.TCPAddrFromAddrPort(server))
		return err
	}))
	defer c.Close()
	for _, q := range questions {
		_, err := c.Write(q.Prefixed())
		require.NoError(t, err)
		var length [2]byte
		_, err = io.ReadFull(c, length[:])
		require.NoError(t, err)
		_, err = io.ReadFull(c, make([]byte, binary.BigEndian.Uint16(length[:])))
		require.NoError(t, err)
	}
}

func TestDNSAgainstResolver(t *testing.T) {
	l := labtest.New(t, lab.Topology{Uplink: lab.Symmetric(lab.Conditions{Delay: 10 * time.Millisecond})})
	client, address := l.Publisher, l.Relay.Devices[0].IPv4.Addr()
	server := netip.AddrPortFrom(address, 53)
	startResolver(t, l.Relay, address)
	lookup(t, client, server, wire.DNS{ID: 999, Name: "example.test", Type: 1}) // it has started

	atResolver := measuring(t, l.Relay, MonitorConfig{
		Interfaces: []string{l.Relay.Facing(client).Name}, DNS: true, IncludeLocal: true,
	})
	end := measuring(t, client, MonitorConfig{Interfaces: []string{"eth0"}, DNS: true})
	var want []report.DNS
	rcodes := make(map[uint8]bool)
	for i, q := range []struct {
		name string
		typ  uint16
	}{{"example.test", 1}, {"EXAMPLE.test", 1}, {"example.test", 28}, {"nothing.test", 1}, {"", 2}} {
		answer := lookup(t, client, server, wire.DNS{ID: uint16(i), Name: q.name, Type: q.typ, EDNS: i%2 == 0})
		rcode := answer[3] & 0xf
		rcodes[rcode] = true
		want = append(want, report.DNS{Type: q.typ, RCode: rcode})
	}
	require.Equal(t, map[uint8]bool{0: true, 3: true, 5: true}, rcodes, "NOERROR, NXDOMAIN, REFUSED")
	lookupTCP(t, client, server, wire.DNS{ID: 1, Name: "example.test", Type: 1}, wire.DNS{
		ID: 2, Name: "nothing.test", Type: 16,
	})
	want = append(want, report.DNS{Type: 1, OverTCP: true}, report.DNS{Type: 16, RCode: 3, OverTCP: true})
	got, inner := end(), atResolver()

	require.Len(t, inner.Samples, len(want))
	var answers []report.DNS
	for i, s := range got.Samples {
		require.Equal(t, report.MethodQuery, s.Method)
		require.Equal(t, server, s.Source)
		require.Greater(t, s.RTT, inner.Samples[i].RTT, "the RTT includes that of the resolver's own host")
		answers = append(answers, *s.DNS)
	}
	require.Equal(t, want, answers)
}
