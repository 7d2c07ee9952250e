package moqt

import (
	"errors"
	"fmt"
	"slices"
)

// This file is the wire format of draft-lcurley-moq-cluster, by which relays keep announcements from going round in
// circles. Each end declares its Hop ID in SETUP, and announcements carry the Hop IDs that they have come through.
//
// Version 00 of that draft declares the Hop ID by RELAY_HOPS, later ones by HOP_ID. All else that this package knows is
// the same in both.
const (
	OptionHopID     uint64 = 0x40b54
	OptionRelayHops uint64 = 0x40b55
	OptionRelayCost uint64 = 0x40b56
	// OptionRequestHops is Sluice's own: its sender also takes HOP_PATH in requests and in SUBSCRIBE_OK.
	OptionRequestHops uint64 = 0x511ce0
)

// MaxHops is the longest HopPath. The draft names no limit; other relays have the same one.
const MaxHops = 32

// HopPath lists the Hop IDs that an announcement, a request or a track has come through, the first one first. 0 stands
// for somebody who has not said who he is.
type HopPath []uint64

// Has reports whether the path has come through somebody with a Hop ID. 0 is nobody's.
func (p HopPath) Has(id uint64) bool { return id != 0 && slices.Contains(p, id) }

// Through returns the path with another hop. It fails if the path has come through it before, or would be too long.
func (p HopPath) Through(id uint64) (HopPath, error) {
	longer := append(slices.Clone(p), id)
	return longer, longer.validate()
}

var errNoHops = errors.New("the hop path is empty")

func (p HopPath) validate() error {
	switch {
	case len(p) == 0:
		return errNoHops
	case len(p) > MaxHops:
		return fmt.Errorf("the hop path has %d hops, at most %d are allowed", len(p), MaxHops)
	}
	for i, id := range p {
		if p[:i].Has(id) {
			return fmt.Errorf("hop %#x is twice in the hop path: it is a loop", id)
		}
	}
	return nil
}

func (p *HopPath) fields(c *coder) {
	const limit = MaxHops * MaxVarintLen
	c.prefixed(limit, "hop path", func(c *coder) { c.numbers((*[]uint64)(p), limit) })
	c.check(p.validate())
}

// hopPath describes HOP_PATH.
func hopPath(typ ParameterType, s scopes) parameterFormat {
	return parameterFormat{
		typ:    typ,
		scopes: s,
		count:  func(p *Parameters) int { return min(len(p.HopPath), 1) },
		value:  func(c *coder, p *Parameters, _ int) { p.HopPath.fields(c) },
		merge: func(p, update *Parameters) {
			if update.HopPath != nil {
				p.HopPath = update.HopPath
			}
		},
	}
}

// relayHops reads the value of RELAY_HOPS.
func relayHops(c *coder, value []byte) (id uint64) {
	c.within(&coder{wire: c.wire, b: value}, "hop id", func(c *coder) { c.varint(&id) })
	return id
}

// Hops says which messages of a session may have HOP_PATH.
type Hops uint8

const (
	// NoHops is for sessions that have not agreed on draft-lcurley-moq-cluster.
	NoHops Hops = iota
	// HopsOfNamespaces is for sessions that have: each PUBLISH_NAMESPACE and NAMESPACE has a path, and may have a cost.
	HopsOfNamespaces
	// HopsOfRequests is for sessions that have also agreed on OptionRequestHops: any request may have a path, and so
	// may SUBSCRIBE_OK.
	HopsOfRequests
)

// checkHops checks HOP_PATH and ROUTE_COST.
func (c Context) checkHops(m Message) error {
	switch m := m.(type) {
	case *PublishNamespace:
		if c.Stream != 0 && c.Hops < HopsOfNamespaces { // the draft's version 00 changes an announcement by another one
			return violation("second PUBLISH_NAMESPACE on its stream")
		}
		return c.Hops.checkNamespace(m.Type(), &m.Parameters)
	case *NamespaceAdded:
		if extended := m.Parameters != nil; extended != (c.Hops >= HopsOfNamespaces) {
			return violation("the fields of NAMESPACE are not those on which the session has agreed")
		}
		if m.Parameters != nil {
			return c.Hops.checkNamespace(m.Type(), m.Parameters)
		}
	case *RequestUpdate:
		if c.Hops < HopsOfNamespaces && (m.Parameters.HopPath != nil || m.Parameters.RouteCost != nil) {
			return errHopsNotAgreed
		}
	default:
		if p := PartsOf(m).Parameters; p != nil && p.HopPath != nil && c.Hops < HopsOfRequests {
			return errHopsNotAgreed
		}
	}
	return nil
}

var errHopsNotAgreed = violation("parameter %#x without the setup option for it", uint64(ParameterHopPath))

// checkNamespace checks the parameters of an announcement.
func (h Hops) checkNamespace(typ MessageType, p *Parameters) error {
	switch {
	case h >= HopsOfNamespaces && p.HopPath == nil:
		return violation("%s without HOP_PATH", typ)
	case h < HopsOfNamespaces && (p.HopPath != nil || p.RouteCost != nil):
		return errHopsNotAgreed
	}
	return nil
}
