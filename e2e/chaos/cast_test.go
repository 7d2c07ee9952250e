package chaos

import (
	"sluice/lab"
	"sluice/moqt"
)

// relayNames are the relays: by who sends media, and one that is replaced by another process again and again, with the
// fast path. RTSP does not outlive that, so the last one does not serve it.
var relayNames = []string{"fastpath", "userspace", "replaced"}

// Indices in relayNames.
const (
	replaceable = 2
	rtspRelays  = 2 // those before it serve RTSP
)

// Hosts of the lab; the first is the victims'. No hostile peer shares an address with an honest one, and so no
// quota.
var (
	honestHosts  = []string{lab.PublisherName, "sub1", "sub2", "sub3", "sub4", "sub5"}
	hostileHosts = []string{"sub6", "sub7"}
)

// Hosts of honest clients of RTSP. RTP by UDP does not survive bad links, nor RTSP another address, so each has one
// kind of link: bad ones with media on the TCP connection, and clean ones with media by UDP.
const (
	tcpHost       = "sub8"
	publisherHost = "sub9" // by UDP
	playerHost    = "sub10"
)

// rtspHosts is how many they are.
const rtspHosts = 3

// role is what an honest process does at each of the relays.
type role struct {
	broadcast string // name
	host      string
	scheme    string
	ipv6      bool
	mortal    bool // it is killed now and then
}

// Publishers and viewers at each relay. The publisher of the broadcast "mortal" is killed, and its viewers may end.
// That broadcast crosses from IPv6 to IPv4, where the kernel leaves most copies to user space.
var (
	publishers = []role{
		{broadcast: "quic", host: lab.PublisherName, scheme: "moqt", ipv6: true},
		{broadcast: "web", host: "sub1", scheme: "https"},
		{broadcast: mortalBroadcast, host: lab.PublisherName, scheme: "moqt", ipv6: true, mortal: true},
	}
	viewers = []role{
		{broadcast: "web", host: "sub2", scheme: "moqt"},
		{broadcast: "quic", host: "sub3", scheme: "https", ipv6: true},
		{broadcast: "quic", host: "sub4", scheme: "moqt", ipv6: true, mortal: true},
		{broadcast: "web", host: "sub5", scheme: "https", mortal: true},
		{broadcast: mortalBroadcast, host: "sub4", scheme: "https", mortal: true},
	}
	publisherHosts = []string{lab.PublisherName, "sub1"}
)

const mortalBroadcast = "mortal"

// namespace returns the namespace of a broadcast at a relay.
func namespace(relay int, broadcast string) moqt.Namespace {
	return moqt.Namespace{"chaos", relayNames[relay], broadcast}
}

// attachPoint is where a program of the fast path is attached: at a device of the relays' host.
type attachPoint struct{ device, name string }

var attachPoints = []attachPoint{
	{"up", "server_ingress"}, {"up", "rtp_ingress"}, {"up", "client_egress"},
	{"down", "server_ingress"}, {"down", "rtp_ingress"}, {"down", "client_egress"},
}

func (p attachPoint) String() string { return p.name + " of " + p.device }
