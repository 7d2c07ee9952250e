package moqt

import (
	"fmt"
	"math"
)

// ParameterType identifies a Message Parameter (draft §15.6).
type ParameterType uint64

// Message Parameter types.
const (
	ParameterObjectDeliveryTimeout   ParameterType = 0x02
	ParameterAuthorizationToken      ParameterType = 0x03
	ParameterRendezvousTimeout       ParameterType = 0x04
	ParameterSubgroupDeliveryTimeout ParameterType = 0x06
	ParameterExpires                 ParameterType = 0x08
	ParameterLargestObject           ParameterType = 0x09
	ParameterFillTimeout             ParameterType = 0x0a
	ParameterForward                 ParameterType = 0x10
	ParameterSubscriberPriority      ParameterType = 0x20
	ParameterLocationFilter          ParameterType = 0x21 // SUBSCRIPTION_FILTER in draft-18
	ParameterGroupOrder              ParameterType = 0x22
	ParameterFillParameters          ParameterType = 0x23 // since draft-20
	ParameterSubgroupFilter          ParameterType = 0x25 // this and the next four: since draft-19
	ParameterObjectIDFilter          ParameterType = 0x26
	ParameterPriorityFilter          ParameterType = 0x27
	ParameterObjectPropertyFilter    ParameterType = 0x28
	ParameterTrackPropertyFilter     ParameterType = 0x29
	ParameterNewGroupRequest         ParameterType = 0x32
	ParameterTrackNamespacePrefix    ParameterType = 0x34
	ParameterIncludeProperties       ParameterType = 0x35    // since draft-20
	ParameterHopPath                 ParameterType = 0x40b57 // draft-lcurley-moq-cluster
	ParameterRouteCost               ParameterType = 0x40b58 // the same
	ParameterRendition               ParameterType = 0x511ce4
	ParameterPlayback                ParameterType = 0x511ce6
)

// parameterFormat describes a parameter of one version: where it may appear and how it is encoded.
type parameterFormat struct {
	typ        ParameterType
	scopes     scopes
	scope      scope // in this version
	repeatable bool
	count      func(*Parameters) int
	encode     func(e *encoder, p *Parameters, i int) // the value of instance i
	decode     func(*decoder, *Parameters)
	merge      func(p, update *Parameters)
}

// valueFormat is one of the encodings that parameters use (draft §10.2).
type valueFormat[T any] struct {
	encode func(*encoder, T)
	decode func(*decoder) T
}

// single describes a parameter that may appear once. get returns its field.
func single[T any](typ ParameterType, s scopes, get func(*Parameters) **T, v valueFormat[T]) parameterFormat {
	return parameterFormat{
		typ:    typ,
		scopes: s,
		count: func(p *Parameters) int {
			if *get(p) == nil {
				return 0
			}
			return 1
		},
		encode: func(e *encoder, p *Parameters, _ int) { v.encode(e, **get(p)) },
		decode: func(d *decoder, p *Parameters) {
			value := v.decode(d)
			*get(p) = &value
		},
		merge: func(p, update *Parameters) {
			if value := *get(update); value != nil {
				*get(p) = value
			}
		},
	}
}

// tokens describes AUTHORIZATION_TOKEN, which may be repeated.
func tokens(typ ParameterType, s scopes) parameterFormat {
	return parameterFormat{
		typ:        typ,
		scopes:     s,
		repeatable: true,
		count:      func(p *Parameters) int { return len(p.AuthorizationTokens) },
		encode:     func(e *encoder, p *Parameters, i int) { e.token(p.AuthorizationTokens[i]) },
		decode:     func(d *decoder, p *Parameters) { p.AuthorizationTokens = d.token(p.AuthorizationTokens) },
		merge: func(p, update *Parameters) {
			if len(update.AuthorizationTokens) > 0 {
				p.AuthorizationTokens = update.AuthorizationTokens
			}
		},
	}
}

var (
	varintValue     = valueFormat[uint64]{(*encoder).varint, (*decoder).varint}
	byteValue       = valueFormat[uint8]{(*encoder).byte, (*decoder).uint8}
	locationValue   = valueFormat[Location]{(*encoder).location, (*decoder).location}
	renditionValue  = valueFormat[Rendition]{(*encoder).rendition, (*decoder).rendition}
	playbackValue   = valueFormat[Playback]{(*encoder).playback, (*decoder).playback}
	namespaceValue  = valueFormat[Namespace]{(*encoder).namespace, (*decoder).namespace}
	groupOrderValue = valueFormat[GroupOrder]{(*encoder).groupOrder, (*decoder).groupOrder}
	filterValue     = valueFormat[Filter]{
		func(e *encoder, f Filter) { e.wire.filter.encode(e, f) },
		func(d *decoder) Filter { return d.wire.filter.decode(d) },
	}
)

// boolValue is the encoding of a uint8 that is 0 or 1.
func boolValue(what string) valueFormat[bool] {
	return valueFormat[bool]{(*encoder).bool, func(d *decoder) bool { return d.bool(what) }}
}

// fill describes FILL_PARAMETERS, whose value is encoded like the parameters of a message. An update does not change
// the fill parameters of another message (draft-20 §10.2.15).
func fill(typ ParameterType, s scopes) parameterFormat {
	f := single(typ, s, func(p *Parameters) **Parameters { return &p.Fill }, valueFormat[Parameters]{
		func(e *encoder, p Parameters) { e.prefixed(func(e *encoder) { e.parameters(&p, inFill) }) },
		func(d *decoder) (p Parameters) {
			d.prefixed("fill parameters", func(d *decoder) { p = d.parameters(inFill) })
			return p
		},
	})
	f.merge = func(p, update *Parameters) {}
	return f
}

// parameters decodes Number of Parameters and the Parameters. All must be in scope.
func (d *decoder) parameters(allowed scope) (p Parameters) {
	n := d.varint()
	var last parameterFormat
	for ; n > 0 && d.err == nil; n-- {
		delta := d.varint()
		typ := last.typ + ParameterType(delta)
		if typ < last.typ {
			d.fail(violation("parameter type exceeds 2^64-1"))
			break
		}
		f, ok := d.wire.parameter(typ)
		if ok && d.oldParameters && typ == ParameterGroupOrder && allowed == inSubscribeOK {
			d.groupOrder()
			last = f
			continue
		}
		if ok && f.scope&allowed == 0 && d.wire.references {
			f.decode(d, new(Parameters)) // draft-16 §9.2.2: to be ignored
			last = f
			continue
		}
		if !ok || f.scope&allowed == 0 {
			d.fail(violation("parameter %#x is unknown in this message", uint64(typ)))
			break
		}
		if !f.repeatable && f.count(&p) > 0 {
			d.fail(violation("parameter %#x appears twice", uint64(typ)))
			break
		}
		f.decode(d, &p)
		last = f
	}
	return p
}

// parameters encodes Number of Parameters and the Parameters. All must be in scope.
func (e *encoder) parameters(p *Parameters, allowed scope) {
	n := 0
	for _, f := range e.wire.parameters {
		n += f.count(p)
	}
	e.fail(checkTokens(p.AuthorizationTokens))
	e.varint(uint64(n))
	last := ParameterType(0)
	for _, f := range e.wire.parameters {
		for i := range f.count(p) {
			if f.scope&allowed == 0 {
				e.fail(fmt.Errorf("parameter %#x is not allowed in this message", uint64(f.typ)))
			}
			e.varint(uint64(f.typ - last))
			f.encode(e, p, i)
			last = f.typ
		}
	}
}

// check returns an error that names the first parameter of p that is not allowed.
func (w *wire) check(p *Parameters, allowed scope) error {
	for _, f := range w.parameters {
		if f.count(p) > 0 && f.scope&allowed == 0 && !w.references {
			return violation("parameter %#x is not allowed in this message", uint64(f.typ))
		}
	}
	return nil
}

func (e *encoder) token(t Token) {
	if !t.AliasType.hasAlias() && !t.AliasType.hasValue() {
		e.fail(errAliasType)
	}
	b := e.encodedToken(t)
	e.varint(uint64(len(b)))
	e.b = append(e.b, b...)
}

// token decodes a token, and appends it to those before it.
func (d *decoder) token(before []Token) []Token {
	tokens, err := d.wire.appendParsed(before, d.lengthPrefixed(maxPayloadLen, "authorization token"))
	d.fail(err)
	return tokens
}

func (e *encoder) bool(v bool) {
	if v {
		e.byte(1)
	} else {
		e.byte(0)
	}
}

func (d *decoder) bool(what string) bool {
	b := d.byte()
	if b > 1 {
		d.fail(violation("%s is %d, neither 0 nor 1", what, b))
	}
	return b == 1
}

// uint8 decodes a number of one byte.
func (d *decoder) uint8() uint8 {
	if !d.oldParameters {
		return d.byte()
	}
	n := d.varint()
	if n > math.MaxUint8 {
		d.fail(violation("a parameter of one byte is %d", n))
	}
	return uint8(n)
}

func (e *encoder) groupOrder(o GroupOrder) {
	e.fail(o.validate())
	e.byte(byte(o))
}

func (d *decoder) groupOrder() GroupOrder {
	o := GroupOrder(d.byte())
	d.check(o.validate())
	return o
}
