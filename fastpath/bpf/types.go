package bpf

// The structs of the shared memory and of the maps, under the names that they have in C (shared/state.h).
type (
	ConnState    = IngressConnState
	StreamState  = IngressStreamState
	Record       = IngressRecord
	PacketKeys   = IngressPacketKeys
	SendKeys     = IngressSendKeys
	CopyCounts   = IngressCopyCounts
	Publisher    = IngressPublisher
	Path         = IngressPath
	UDPPath      = IngressUdpPath
	VersionKey   = IngressVersionKey
	ConnectionID = IngressConnectionId

	Track         = IngressTrack
	Subscription  = IngressSubscription
	AliasKey      = IngressAliasKey
	Subgroup      = IngressSubgroup
	StreamKey     = IngressStreamKey
	SubgroupKey   = IngressSubgroupKey
	DownstreamKey = IngressDownstreamKey
	ObjectKey     = IngressObjectKey
	ObjectClaim   = IngressObjectClaim

	Held = IngressHeld

	DelayCounts = IngressDelayCounts

	RTPMedia  = RTPRtpMedia
	RTPPlayer = RTPRtpPlayer
	RTPSlot   = RTPRtpSlot
	Job       = RTPJob

	KeyStream = IngressKeyStream
	Neighbor  = IngressNeighbor
	Reason    = IngressReason
)
