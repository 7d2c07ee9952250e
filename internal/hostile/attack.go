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
	{"garbage in a request", (*Peer).garbageRequest},
	{"garbage in a stream", (*Peer).garbageStream},
	{"garbage in a datagram", (*Peer).garbageDatagram},
	{"streams without end", (*Peer).streams},
	{"request streams without end", (*Peer).requestStreams},
	{"streams of unknown tracks", (*Peer).unknownAliases},
	{"requests without end", (*Peer).requests},
	{"fetches that are not read", (*Peer).fetches},
	{"objects that are not read", (*Peer).neverReads},
	{"tiny objects", (*Peer).tinyObjects},
	{"groups of one object", (*Peer).tinyGroups},
	{"tokens without end", (*Peer).tokens},
	{"tokens of many requests", (*Peer).tokensOfRequests},
	{"prefixes without end", (*Peer).prefixes},
	{"streams that wait", (*Peer).waitingStreams},
	{"ids that never merge", (*Peer).sparseObjects},
	{"other people's namespaces", (*Peer).contradicts},
	{"other people's tracks, offered", (*Peer).offers},
}

// UpstreamAttacks are the attacks of an upstream relay, which the relay has dialed.
var UpstreamAttacks = []Attack{
	{"garbage in a request", (*Peer).garbageRequest},
	{"garbage in a stream", (*Peer).garbageStream},
	{"garbage in a datagram", (*Peer).garbageDatagram},
	{"streams without end", (*Peer).streams},
	{"request streams without end", (*Peer).requestStreams},
	{"streams of unknown tracks", (*Peer).unknownAliases},
	{"requests without end", (*Peer).requests},
	{"tiny objects", (*Peer).tinyObjects},
	{"groups of one object", (*Peer).tinyGroups},
	{"streams that wait", (*Peer).waitingStreams},
	{"ids that never merge", (*Peer).sparseObjects},
	{"namespaces without end", (*Peer).namespaces},
}
