package moqt

import "errors"

// Bits of the type of an OBJECT_DATAGRAM (draft §11.3.1).
const (
	datagramProperties      = 0x01
	datagramEndOfGroup      = 0x02
	datagramZeroObjectID    = 0x04
	datagramDefaultPriority = 0x08
	datagramStatus          = 0x20
)

// DatagramKind says what a datagram carries.
type DatagramKind uint8

// Datagram kinds.
const (
	DatagramObject  DatagramKind = iota + 1
	DatagramPadding              // to be discarded
)

// ObjectDatagram is an object in a datagram (draft §11.3.1).
type ObjectDatagram struct {
	TrackAlias      uint64
	Location        Location
	DefaultPriority bool  // the datagram has no priority: the subscription's applies
	Priority        uint8 // Publisher Priority, unless DefaultPriority
	EndOfGroup      bool  // the group has no object with a larger id
	Status          ObjectStatus
	Properties      Properties
	Payload         []byte // with StatusNormal only
}

// ParseDatagramKind returns what a datagram carries, given its first bytes. A type that is unknown, invalid or
// incomplete is a ProtocolError (the draft names no code for unknown types).
func ParseDatagramKind(v Version, b []byte) (DatagramKind, error) {
	typ, _, err := v.DataLayout().varint().parse(b)
	switch {
	case err != nil:
		return 0, violation("datagram ends within its type")
	case typ == v.wire().streams.paddingDatagram:
		return DatagramPadding, nil
	}
	return DatagramObject, v.DataLayout().types().checkDatagram(typ)
}

// ParseObjectDatagram decodes an OBJECT_DATAGRAM, which is all of b. Properties and Payload share the memory of b. It
// returns a ProtocolError, a MalformedTrackError or ErrPropertiesTooLong. TrackAlias and Location are valid unless it
// is a ProtocolError.
func ParseObjectDatagram(v Version, b []byte) (o ObjectDatagram, err error) {
	f := fields{varints: v.DataLayout().varint(), b: b}
	typ := f.varint()
	if f.err == nil {
		f.fail(v.DataLayout().types().checkDatagram(typ))
	}
	o.TrackAlias = f.varint()
	o.Location.Group = f.varint()
	if typ&datagramZeroObjectID == 0 {
		o.Location.Object = f.varint()
	}
	if o.DefaultPriority = typ&datagramDefaultPriority != 0; !o.DefaultPriority {
		o.Priority = f.byte()
	}
	o.EndOfGroup = typ&datagramEndOfGroup != 0
	if typ&datagramProperties != 0 {
		if o.Properties, _ = f.properties(); o.Properties == nil {
			f.fail(violation("datagram with a properties field of length 0"))
		}
	}
	if typ&datagramStatus != 0 {
		o.Status = ObjectStatus(f.varint())
		if f.err == nil && f.n < len(b) {
			f.fail(violation("datagram with a status has a payload"))
		}
	} else if f.err == nil {
		o.Payload = b[f.n:]
	}
	if f.err == ErrIncomplete {
		return o, violation("datagram ends within its header")
	}
	f.fail(breach(o.Status.validate(o.Properties)))
	f.fail(o.Properties.CheckObject(o.Location))
	return o, f.err
}

// AppendDatagramHeader appends all of o but its Payload, which can then be sent from where it is. Only the length of
// Payload matters. If a receiver would refuse o, it returns b unchanged and an error.
func AppendDatagramHeader(b []byte, v Version, o *ObjectDatagram) ([]byte, error) {
	if err := o.validate(); err != nil {
		return b, err
	}
	l, flags := v.DataLayout(), o.flags()
	varints := l.varint()
	properties, err := varints.properties(o.Properties)
	if err == nil {
		err = varints.check(o.TrackAlias, o.Location.Group, o.Location.Object)
	}
	if err != nil {
		return b, err
	}
	b = varints.append(b, l.types().datagram.fixed|flags)
	b = varints.append(b, o.TrackAlias)
	b = varints.append(b, o.Location.Group)
	if o.Location.Object != 0 {
		b = varints.append(b, o.Location.Object)
	}
	if !o.DefaultPriority {
		b = append(b, o.Priority)
	}
	if len(properties) > 0 {
		b = varints.appendProperties(b, properties)
	}
	if flags&datagramStatus != 0 {
		b = varints.append(b, uint64(o.Status))
	}
	return b, nil
}

// flags returns the bits of the type that name the fields. An empty object gets an explicit status (draft §11.2.1.1),
// except that an object with the end-of-group bit cannot have one. Receivers accept both forms.
func (o *ObjectDatagram) flags() (flags uint64) {
	if len(o.Properties) > 0 {
		flags |= datagramProperties
	}
	if o.EndOfGroup {
		flags |= datagramEndOfGroup
	}
	if o.Location.Object == 0 {
		flags |= datagramZeroObjectID
	}
	if o.DefaultPriority {
		flags |= datagramDefaultPriority
	}
	if o.Status != StatusNormal || len(o.Payload) == 0 && !o.EndOfGroup {
		flags |= datagramStatus
	}
	return flags
}

var errStatusEndOfGroup = errors.New("a datagram with a status cannot signal the end of its group")

func (o *ObjectDatagram) validate() error {
	if o.Status != StatusNormal && len(o.Payload) > 0 {
		return errStatusPayload
	}
	if o.Status != StatusNormal && o.EndOfGroup {
		return errStatusEndOfGroup
	}
	return o.Status.validate(o.Properties)
}

// AppendPaddingDatagram appends a padding datagram of size bytes, or of the smallest possible size (draft §11.5.2).
func AppendPaddingDatagram(b []byte, v Version, size int) []byte {
	start := len(b)
	b = AppendVarint(b, v.wire().streams.paddingDatagram)
	if n := size - (len(b) - start); n > 0 {
		b = append(b, make([]byte, n)...)
	}
	return b
}
