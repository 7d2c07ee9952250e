package fastpath

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"unsafe"

	"sluice/media"
)

const (
	ledgerLen = 2048 // records of one subscriber, LEDGER_LEN in bpf/state.h
)

// PacketKeys are the keys of one direction in one key phase.
type PacketKeys media.PacketKeys

func (p *PacketKeys) words() (k kernelPacketKeys) {
	for i := range k.Key {
		k.Key[i] = binary.LittleEndian.Uint32(p.Key[4*i:])
		k.Hp[i] = binary.LittleEndian.Uint32(p.HeaderProtection[4*i:])
	}
	for i := range k.Iv {
		// As it lies in memory: the program combines it with a packet number in network byte order.
		k.Iv[i] = binary.NativeEndian.Uint32(p.IV[4*i:])
	}
	return k
}

// Path is how a subscriber is reached.
type Path struct {
	Local, Remote    netip.AddrPort // of one family
	ConnectionID     []byte         // destination connection ID, at most 20 bytes
	StreamPrefix     []byte         // what WebTransport puts in front of a stream, at most 16 bytes
	DatagramPrefix   []byte         // and of a datagram, at most 8
	InitialMaxStream uint64         // initial_max_stream_data_uni
}

func (p *Path) validate() error {
	switch {
	case p.Local.Addr().Is4() != p.Remote.Addr().Is4():
		return fmt.Errorf("fast path: %v and %v are of different families", p.Local, p.Remote)
	case len(p.ConnectionID) > 20 || len(p.StreamPrefix) > 16 || len(p.DatagramPrefix) > 8:
		return fmt.Errorf("fast path: a connection ID or prefix of %v is too long", p.Remote)
	}
	return nil
}

// SetPath says how a subscriber is reached, from the next packet on. Its link-layer address is the one that the stack used
// last.
func (k *Kernel) SetPath(subscriber uint32, p Path) error {
	if err := p.validate(); err != nil {
		return err
	}
	v := kernelPath{
		Sport: bigEndian16(p.Local.Port()), Dport: bigEndian16(p.Remote.Port()),
		DcidLen: uint8(len(p.ConnectionID)), StreamPrefixLen: uint8(len(p.StreamPrefix)), DatagramPrefixLen: uint8(len(p.DatagramPrefix)),
		StreamLimit: p.InitialMaxStream,
	}
	if p.Local.Addr().Is6() {
		v.V6 = 1
	}
	copy(v.Saddr[:], p.Local.Addr().AsSlice())
	copy(v.Daddr[:], p.Remote.Addr().AsSlice())
	copy(v.Dcid[:], p.ConnectionID)
	copy(v.StreamPrefix[len(v.StreamPrefix)-len(p.StreamPrefix):], p.StreamPrefix)
	copy(v.DatagramPrefix[len(v.DatagramPrefix)-len(p.DatagramPrefix):], p.DatagramPrefix)
	return k.ingress.Paths.Put(subscriber, v)
}

// SetSendKeys sets the keys of a subscriber's key generation, before the first packet number of that generation is taken.
func (k *Kernel) SetSendKeys(subscriber uint32, generation uint64, keys *PacketKeys) {
	k.keys[subscriber].Generation[generation&3] = keys.words()
}

// ForgetSubscriber ends copies for a subscriber and erases its keys.
func (k *Kernel) ForgetSubscriber(subscriber uint32) error {
	err := k.ingress.Paths.Delete(subscriber)
	k.keys[subscriber] = kernelSendKeys{}
	return err
}

// SetUpstream starts to open the packets of a publisher that bear one of the relay's connection IDs. expected is the
// lowest packet number that has not been received.
func (k *Kernel) SetUpstream(upstream uint32, webtransport bool, expected uint64) {
	u := &k.upstreams[upstream]
	*u = kernelUpstream{ExpectedPn: expected, Active: 1}
	if webtransport {
		u.Webtransport = 1
	}
}

// SetOpenKeys sets the keys of a publisher's key phase, 0 or 1.
func (k *Kernel) SetOpenKeys(upstream uint32, phase int, keys *PacketKeys) {
	u := &k.upstreams[upstream]
	u.Keys[phase] = keys.words()
	u.KeysSet |= 1 << phase
}

// AddConnectionID makes packets with a destination connection ID those of an upstream.
func (k *Kernel) AddConnectionID(cid []byte, upstream uint32) error {
	return k.ingress.ConnectionIds.Put(connectionID(cid), upstream)
}

// RemoveConnectionID undoes AddConnectionID.
func (k *Kernel) RemoveConnectionID(cid []byte) error {
	return k.ingress.ConnectionIds.Delete(connectionID(cid))
}

func connectionID(cid []byte) (id kernelConnectionId) {
	copy(id.Bytes[:], cid)
	id.Len = uint32(len(cid))
	return id
}

// ForgetUpstream erases the keys of a publisher.
func (k *Kernel) ForgetUpstream(upstream uint32) { k.upstreams[upstream] = kernelUpstream{} }

// SetAlias makes an alias that a publisher uses that of a track.
func (k *Kernel) SetAlias(upstream uint32, alias uint64, track uint32) error {
	return k.ingress.Aliases.Put(kernelAliasKey{Alias: alias, Upstream: upstream}, track)
}

// Subscription is one subscriber's wish for a track.
type Subscription struct {
	Subscriber  uint32
	Alias       uint64 // on the subscriber's hop
	StartGroup  uint64
	StartObject uint64
	EndGroup    uint64 // inclusive
	Forward     bool
	Priority    uint8 // Subscriber Priority
}

// SetTrack replaces the subscriptions of a track, at most 32, from the next packet on. defaultPriority is the Publisher Priority of
// subgroups that do not say theirs.
func (k *Kernel) SetTrack(track uint32, defaultPriority uint8, subscriptions []Subscription) error {
	if len(subscriptions) > MaxSubscriptions {
		return fmt.Errorf("fast path: %d subscriptions of one track, at most %d are possible", len(subscriptions), MaxSubscriptions)
	}
	return k.ingress.Tracks.Put(track, trackValue(defaultPriority, subscriptions))
}

func trackValue(defaultPriority uint8, subscriptions []Subscription) kernelTrack {
	v := kernelTrack{Count: uint32(len(subscriptions)), DefaultPriority: uint32(defaultPriority)}
	for i, s := range subscriptions {
		v.Subscriptions[i] = kernelSubscription{
			Alias: s.Alias, StartGroup: s.StartGroup, StartObject: s.StartObject, EndGroup: s.EndGroup,
			Subscriber: s.Subscriber, Priority: s.Priority,
		}
		if s.Forward {
			v.Subscriptions[i].Forward = 1
		}
	}
	return v
}

// bigEndian16 is a port as it lies in a packet.
func bigEndian16(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return *(*uint16)(unsafe.Pointer(&b))
}
