package hostile

// Attack is an attack by a hostile peer.
type Attack struct {
	Name string
	run  func(*Peer) error
}

// Run attacks the relay once.
func (a Attack) Run(p *Peer) error { return a.run(p) }

// Attacks are the attacks of a peer that has dialed the relay.
var Attacks = []Attack{
	{"garbage in a request", garbageRequest},
	{"garbage in a stream", garbageStream},
	{"garbage in a datagram", garbageDatagram},
	{"streams without end", streams},
	{"request streams without end", requestStreams},
	{"streams of unknown tracks", unknownAliases},
	{"requests without end", requests},
	{"fetches that are not read", fetches},
	{"objects that are not read", neverReads},
	{"tiny objects", tinyObjects},
	{"groups of one object", tinyGroups},
	{"tokens without end", tokens},
	{"tokens of many requests", tokensOfRequests},
	{"prefixes without end", prefixes},
	{"streams that wait", waitingStreams},
	{"ids that never merge", sparseObjects},
	{"other people's namespaces", contradicts},
	{"other people's tracks, offered", offers},
}

// UpstreamAttacks are the attacks of an upstream relay, which the relay has dialed.
var UpstreamAttacks = []Attack{
	{"garbage in a request", garbageRequest},
	{"garbage in a stream", garbageStream},
	{"garbage in a datagram", garbageDatagram},
	{"streams without end", streams},
	{"request streams without end", requestStreams},
	{"streams of unknown tracks", unknownAliases},
	{"requests without end", requests},
	{"tiny objects", tinyObjects},
	{"groups of one object", tinyGroups},
	{"streams that wait", waitingStreams},
	{"ids that never merge", sparseObjects},
	{"namespaces without end", namespaces},
}
