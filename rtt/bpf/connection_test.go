//go:build linux

package bpf

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"

	"sluice/rtt/internal/wire"
)

// Where the client's packets come from after it has got another port, or an address on the other side of the server's
// in the order of a flow's key.
var elsewhere = []netip.AddrPort{
	netip.MustParseAddrPort("10.0.0.1:2000"), netip.MustParseAddrPort("10.0.0.9:1000"),
}

// A peer shows the packets between a client, at some address, and a server.
type peer struct {
	*watch
	client netip.AddrPort
	id     []byte // of the server
}

func (p peer) up(at float64, datagram []byte) {
	p.show(MonitorProgEgress, ms(at), wire.Frame(wire.UDP(p.client, quicServer, datagram)))
}

func (p peer) down(at float64, datagram []byte) {
	p.show(MonitorProgEgress, ms(at), wire.Frame(wire.UDP(quicServer, p.client, datagram)))
}

func (p peer) shortUp(at float64)   { p.up(at, wire.Short(false, p.id, 0, 100)) }
func (p peer) shortDown(at float64) { p.down(at, wire.Short(false, clientID, 0, 100)) }

// at returns the peer with its client at another address.
func (p peer) at(client netip.AddrPort) peer {
	p.client = client
	return p
}

// connected shows a handshake.
func connected(t *testing.T, id []byte, s MonitorSettings, programs ...string) peer {
	s.Quic = 1
	p := peer{watching(t, s, programs...), client, id}
	p.connect(0, id)
	p.got()
	return p
}

// connect shows a handshake, in which the server takes this ID.
func (p peer) connect(at float64, id []byte) {
	p.up(at, clientToInit.Datagram())
	p.down(at+40, wire.Long{Destination: clientID, Source: id}.Datagram())
	p.up(at+50, wire.Long{Type: wire.Handshake, Destination: id, Source: clientID, Length: 80}.Datagram())
}

// clients returns the ends of the flows that are not the server.
func (w *watch) clients() (all []string) {
	w.t.Helper()
	var key MonitorFlowKey
	var f MonitorFlow
	for flows := w.m.Maps[MonitorMapFlows].Iterate(); flows.Next(&key, &f); {
		for i := range key.Address {
			if end := endpoint(key.Address[i], key.Port[i]); end != quicServer.String() {
				all = append(all, end)
			}
		}
	}
	slices.Sort(all)
	return all
}

// RTTs by the spin bit go on when the client's packets come from elsewhere, and no flow opens or closes.
func TestConnectionMoves(t *testing.T) {
	t.Parallel()
	for _, to := range elsewhere {
		t.Run(to.String(), func(t *testing.T) {
			t.Parallel()
			p := connected(t, serverID, MonitorSettings{})
			for i, packet := range steady.Packets() {
				now := p
				// The server sends to the new address when it has packets from there.
				moves := steady.Duration / 2
				if !packet.FromClient {
					moves += 2 * steady.ToServer
				}
				if packet.At >= moves {
					now = p.at(to)
				}
				at := 50 + packet.At.Seconds()*1000
				if packet.FromClient {
					now.up(at, wire.Short(packet.Value, serverID, byte(i*7), 100))
				} else {
					now.down(at, wire.Short(packet.Value, clientID, byte(i*7), 100))
				}
			}
			require.Equal(t, []string{to.String()}, p.clients())
			require.EqualValues(t, 1, p.tally(MonitorTallyTALLY_FLOWS_MOVED))
			require.Equal(t, MonitorSpinClassSPIN_SPINNING, p.class())
			rtts := make(map[string]int)
			for _, e := range p.raw() {
				require.EqualValues(t, MonitorEventTypeEVENT_RTT, e.Type)
				require.InDelta(t, 50*time.Millisecond, time.Duration(e.Rtt), float64(3*time.Millisecond))
				source, destination := endpoint(e.Source, e.SourcePort), endpoint(e.Destination, e.DestinationPort)
				if source == quicServer.String() {
					rtts[destination]++
				} else {
					rtts[source]++
				}
			}
			require.InDelta(t, 24, rtts[client.String()], 6)
			require.InDelta(t, 36, rtts[to.String()], 6)
			require.Len(t, rtts, 2)
		})
	}
}

// A connection ID can be of any length from 4 bytes on.
func TestConnectionIDsOfMovedClients(t *testing.T) {
	t.Parallel()
	for n := range 21 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			p := connected(t, bytes.Repeat([]byte{7}, n), MonitorSettings{})
			moved := p.at(elsewhere[0])
			moved.shortUp(100)
			moved.shortDown(120)
			if n < 4 {
				require.Equal(t, []string{client.String()}, p.clients())
				return
			}
			require.Equal(t, []string{moved.client.String()}, p.clients())
		})
	}
}

// Only the server's packets make a flow move, and only the ID of a connection is followed.
func TestStrangersWithConnectionIDs(t *testing.T) {
	t.Parallel()
	old, other := client.String(), elsewhere[1].String()
	similar, strangerID := append(bytes.Clone(serverID[:19]), 0), bytes.Repeat([]byte{8}, 20)
	for name, test := range map[string]struct {
		show  func(p, moved peer)
		flows []string
	}{
		"the server does not answer": {func(p, moved peer) {
			for i := range 100 {
				moved.shortUp(100 + float64(i))
			}
		}, []string{old, other}},
		"the connection goes on": {func(p, moved peer) {
			moved.shortUp(100)
			p.shortUp(110)
			p.shortDown(120)
			moved.shortDown(130)
		}, []string{old, other}},
		"a packet of the connection comes late": {func(p, moved peer) {
			moved.shortUp(100)
			p.shortUp(110)
			moved.shortDown(120)
			moved.shortDown(1110)
		}, []string{other}},
		"another connection's client sends the ID too": {func(p, moved peer) {
			stranger := p.at(netip.MustParseAddrPort("10.0.0.7:7"))
			stranger.connect(60, strangerID)
			stranger.shortUp(90)
			moved.shortUp(100)
			moved.shortDown(120)
			require.Equal(t, []string{stranger.client.String(), other}, p.clients())
			stranger.up(130, wire.Short(false, similar, 0, 100))
			p.shortUp(140)
			p.shortDown(160)
			require.Equal(t, []string{old, stranger.client.String()}, p.clients())
			stranger.id = strangerID
			stranger.shortUp(170)
			moved.id = strangerID
			moved.shortUp(180)
			moved.shortDown(200)
		}, []string{old, other}},
		"another connection moves to where the ID came from": {func(p, moved peer) {
			moved.shortUp(100)
			moved.up(100, wire.Short(false, strangerID, 0, 100))
			moved.shortUp(100)
			moved.shortDown(120)
			moved.shortDown(9000)
		}, []string{old, other}},
		"another connection ID": {func(p, moved peer) {
			moved.id = similar
			moved.shortUp(100)
			moved.shortDown(120)
		}, []string{old}},
		"a packet that ends in the ID": {func(p, moved peer) {
			moved.up(100, wire.Short(false, serverID, 0, 0)[:20])
			moved.up(100, wire.Short(false, serverID, 0, 0)[:3])
			moved.shortDown(120)
		}, []string{old}},
		"an ID that the client took later": {func(p, moved peer) {
			p.up(90, wire.Short(false, bytes.Repeat([]byte{3}, 20), 0, 100))
			moved.id = bytes.Repeat([]byte{3}, 20)
			moved.shortUp(100)
			moved.shortDown(120)
		}, []string{other}},
		"an ID that the client no longer has": {func(p, moved peer) {
			p.up(90, wire.Short(false, bytes.Repeat([]byte{3}, 20), 0, 100))
			moved.shortUp(100)
			moved.shortDown(120)
		}, []string{old}},
		"another server": {func(p, moved peer) {
			to := netip.AddrPortFrom(quicServer.Addr(), 444)
			packet := wire.UDP(elsewhere[1], to, wire.Short(false, serverID, 0, 99))
			p.show(MonitorProgEgress, ms(100), wire.Frame(packet))
		}, []string{old}},
		"there and back": {func(p, moved peer) {
			moved.shortUp(100)
			moved.shortDown(120)
			p.shortUp(130)
			p.shortDown(140)
		}, []string{old}},
		"another client begins where it would be": {func(p, moved peer) {
			moved.shortUp(100)
			moved.up(110, wire.Long{Destination: randomID, Source: []byte{8}}.Datagram())
			moved.down(130, wire.Long{Destination: []byte{8}, Source: []byte{9, 9, 9, 9}}.Datagram())
			require.Equal(t, []string{"130ms +20ms handshake 10.0.0.2:443>10.0.0.9:1000"}, p.rtts(), "it is measured")
		}, []string{old, other}},
		"other long headers from there": {func(p, moved peer) {
			moved.shortUp(100)
			moved.up(110, wire.Long{Type: wire.Handshake, Destination: serverID, Source: clientID}.Datagram())
			moved.down(110, wire.Long{Type: wire.Handshake, Destination: clientID, Source: serverID}.Datagram())
		}, []string{old, other}},
		"the old ports have another connection": {func(p, moved peer) {
			moved.shortUp(100)
			p.up(110, wire.Long{Destination: randomID, Source: []byte{8}}.Datagram())
			moved.shortDown(120)
		}, []string{old, other}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := connected(t, serverID, MonitorSettings{})
			test.show(p, p.at(elsewhere[1]))
			require.Equal(t, test.flows, p.clients())
			want := map[string]uint64{
				"there and back": 2, "an ID that the client took later": 1, "a packet of the connection comes late": 1,
				"another connection's client sends the ID too": 3,
			}
			require.Equal(t, want[name], p.tally(MonitorTallyTALLY_FLOWS_MOVED))
		})
	}
}

// A flow whose old place is gone, or which nobody answers, ends as others do.
func TestMovedFlowsExpire(t *testing.T) {
	t.Parallel()
	p := connected(t, serverID, MonitorSettings{}, MonitorProgEgress, MonitorProgExpireFlows)
	moved := p.at(elsewhere[1])
	moved.shortUp(1000)
	p.expire(31*time.Second+1, MonitorProgExpireFlows)
	require.Equal(t, []string{client.String()}, p.clients())

	p.expire(121*time.Second, MonitorProgExpireFlows)
	require.Empty(t, p.clients())
	moved.shortUp(122_000)
	moved.shortDown(122_020)
	require.Equal(t, []string{moved.client.String()}, p.clients())
	require.Zero(t, p.tally(MonitorTallyTALLY_FLOWS_MOVED))
}

// Strangers with a connection ID cannot fill the flow table: none of them is answered.
func TestStrangersGiveWay(t *testing.T) {
	t.Parallel()
	p := connected(t, serverID, MonitorSettings{})
	for port := range uint16(testLimits.Flows + 100) {
		p.at(netip.AddrPortFrom(elsewhere[1].Addr(), 1+port)).shortUp(100)
	}
	require.Contains(t, p.clients(), client.String())
	require.Zero(t, p.tally(MonitorTallyTALLY_FLOWS_FULL))
	require.NotZero(t, p.tally(MonitorTallyTALLY_FLOWS_EVICTED))
}

// A client that sends from many addresses, and gets answers at each, keeps one place only.
func TestProbedAddressesGiveWay(t *testing.T) {
	t.Parallel()
	p := connected(t, serverID, MonitorSettings{})
	each := func(from uint16, show func(p peer)) {
		for port := range uint16(testLimits.Flows) {
			show(p.at(netip.AddrPortFrom(elsewhere[1].Addr(), from+port)))
		}
	}
	each(1, func(p peer) { p.shortUp(100) })
	each(1, func(p peer) { p.shortDown(1200) })
	require.EqualValues(t, 1, p.tally(MonitorTallyTALLY_FLOWS_MOVED))
	each(2000, func(p peer) { p.shortUp(1300) })
	require.Zero(t, p.tally(MonitorTallyTALLY_FLOWS_FULL))
}

// The connection that began last is kept when there are more than there is room for.
func TestConnectionsAreLimited(t *testing.T) {
	t.Parallel()
	p := connected(t, serverID, MonitorSettings{})
	table := p.m.Maps[MonitorMapConnections]
	require.Equal(t, ebpf.LRUHash, table.Type())
	require.EqualValues(t, testLimits.Flows/connectionPart, table.MaxEntries())
	id := bytes.Clone(serverID)
	for n := range uint16(2 * table.MaxEntries()) {
		next := p.at(netip.AddrPortFrom(client.Addr(), 2000+n))
		id[0], id[1] = byte(n>>8), byte(n)
		next.connect(100, id)
	}
	moved := p.at(elsewhere[1])
	moved.id = id
	moved.shortUp(200)
	moved.shortDown(220)
	require.EqualValues(t, 1, p.tally(MonitorTallyTALLY_FLOWS_MOVED))
}
