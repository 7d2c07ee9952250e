package moqt

import "math"

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
	value      func(c *coder, p *Parameters, i int) // of instance i; when it is read, the next one
	merge      func(p, update *Parameters)
}

// single describes a parameter that may appear once. get returns its field, and code writes or reads a value. It
// may change a value that it writes.
func single[T any](typ ParameterType, s scopes, get func(*Parameters) **T, code func(*T, *coder)) parameterFormat {
	return parameterFormat{
		typ:    typ,
		scopes: s,
		count: func(p *Parameters) int {
			if *get(p) == nil {
				return 0
			}
			return 1
		},
		value: func(c *coder, p *Parameters, _ int) {
			value := new(T)
			if c.writes {
				*value = **get(p)
			}
			if code(value, c); !c.writes {
				*get(p) = value
			}
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
		value:      func(c *coder, p *Parameters, i int) { tokenField(c, &p.AuthorizationTokens, i) },
		merge: func(p, update *Parameters) {
			if len(update.AuthorizationTokens) > 0 {
				p.AuthorizationTokens = update.AuthorizationTokens
			}
		},
	}
}

func number(x *uint64, c *coder) { c.varint(x) }

// boolean is the encoding of a uint8 that is 0 or 1.
func boolean(what string) func(*bool, *coder) {
	return func(v *bool, c *coder) { c.bool(v, what) }
}

// fill describes FILL_PARAMETERS, whose value is encoded like the parameters of a message. An update does not change
// the fill parameters of another message (draft-20 §10.2.15).
func fill(typ ParameterType, s scopes) parameterFormat {
	f := single(typ, s, func(p *Parameters) **Parameters { return &p.Fill }, func(p *Parameters, c *coder) {
		c.prefixed(maxPayloadLen, "fill parameters", func(c *coder) { p.fields(c, inFill) })
	})
	f.merge = func(p, update *Parameters) {}
	return f
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

// tokenField writes the i-th token, or reads one more.
func tokenField(c *coder, tokens *[]Token, i int) {
	const what = "authorization token"
	if c.writes {
		c.bytes((*tokens)[i].encoded(c), maxPayloadLen, what)
	} else {
		appendToken(c, tokens, c.bytes(nil, maxPayloadLen, what))
	}
}

// octet is a number of one byte.
func octet(x *uint8, c *coder) {
	if !c.oldParameters {
		c.byte(x)
		return
	}
	var n uint64
	if c.varint(&n); n > math.MaxUint8 {
		c.fail(violation("a parameter of one byte is %d", n))
	}
	*x = uint8(n)
}
