package fastpath

import (
	"net/netip"

	"sluice/internal/rtpframe"
)

// RTPSource says where the packets of a media come from, and what they are.
type RTPSource struct {
	Local, Remote netip.AddrPort // of one family: the relay's address for RTP, and the publisher's
	PayloadType   uint8
	Codec         rtpframe.Codec
}

// RTPPacket tells a packet of a media from its neighbours.
type RTPPacket struct {
	SSRC      uint32
	Sequence  uint16
	Timestamp uint32
}

// RTPPath says how a player gets a media.
type RTPPath struct {
	Local, Remote netip.AddrPort // of one family: the relay's address for RTP, and the player's
	SSRC          uint32
	Timestamp     uint32 // added to the publisher's
	Sequence      uint16 // the same
	MTU           int    // largest IP packet
}

// RTPServed says to which players of a media the kernel has sent a packet.
type RTPServed [playerWords]uint64

const playerWords = MaxPlayers / 64

// RTP limits.
const (
	// MaxPlayers is how many players of a media the kernel can serve.
	MaxPlayers = 256
	// MaxRTPRun is how many of them one run serves at most. Workers serve the others: a packet of RTP cannot wait for
	// the next one to save a call, as user space does with streams.
	MaxRTPRun = 80

	rtpCopies = 4 // copies of RTP that are as much work as one of QUIC, see bpf/fanout/players.h
	// MaxRTPMedias is how many medias can be on the fast path. Each one takes 84 KiB while it is.
	MaxRTPMedias = 1024
)
