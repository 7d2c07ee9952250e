package moqt

import (
	"errors"
	"fmt"
)

// SubgroupEncoder encodes the object headers of one subgroup stream.
type SubgroupEncoder struct {
	hasProperties bool
	started       bool
	last          uint64 // latest Object ID, if started
}

// NewSubgroupEncoder returns an encoder for what follows header h.
func NewSubgroupEncoder(h SubgroupHeader) SubgroupEncoder {
	return SubgroupEncoder{hasProperties: h.HasProperties}
}

// AppendObject appends all that precedes the payload of an object. Object IDs have to increase. It refuses what a
// receiver would, and then returns b as it was.
func (e *SubgroupEncoder) AppendObject(b []byte, o ObjectHeader) ([]byte, error) {
	delta := o.ObjectID
	if e.started {
		if o.ObjectID <= e.last {
			return b, fmt.Errorf("object %d after object %d", o.ObjectID, e.last)
		}
		delta -= e.last + 1
	}
	if err := o.validate(e.hasProperties); err != nil {
		return b, fmt.Errorf("object %d: %w", o.ObjectID, err)
	}
	b = AppendVarint(b, delta)
	if e.hasProperties {
		b = appendProperties(b, o.Properties)
	}
	b = AppendVarint(b, o.PayloadLength)
	if o.PayloadLength == 0 {
		b = AppendVarint(b, uint64(o.Status))
	}
	e.started, e.last = true, o.ObjectID
	return b, nil
}

var (
	errNoProperties  = errors.New("properties on a stream whose header says that there are none")
	errStatusPayload = errors.New("a payload together with a status")
)

// validate checks what AppendObject must not write.
func (h *ObjectHeader) validate(hasProperties bool) error {
	switch {
	case !hasProperties && len(h.Properties) > 0:
		return errNoProperties
	case len(h.Properties) > MaxObjectPropertiesLen:
		return ErrPropertiesTooLong
	case h.Status != StatusNormal && h.PayloadLength > 0:
		return errStatusPayload
	}
	return h.Status.validate(h.Properties)
}

// appendProperties appends Properties Length and Properties (draft §11.2.1.2).
func appendProperties(b []byte, p Properties) []byte {
	b = AppendVarint(b, uint64(len(p)))
	return append(b, p...)
}
