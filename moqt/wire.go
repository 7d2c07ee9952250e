package moqt

import "slices"

// wire is the wire format of one version: what its messages, parameters, streams and datagrams are called and how
// each of them is laid out. Code that works on several versions asks this table instead of comparing versions. The
// objects on streams are not in it: a version that lays them out differently gets a parser and an encoder of its own.
type wire struct {
	messages   map[MessageType]messageFormat
	parameters []parameterFormat // in ascending order of type
	streams    streamTypes
}

// streamTypes are the types with which unidirectional streams and datagrams start.
type streamTypes struct {
	subgroup              typeFamily
	fetch, setup, padding uint64

	datagram        typeFamily
	paddingDatagram uint64
}

// typeFamily is a set of types whose bits say what fields follow.
type typeFamily struct {
	fixed uint64 // bits that are always set
	flags uint64 // bits that may be set
}

func (f typeFamily) contains(typ uint64) bool { return typ&^f.flags == f.fixed }

// wire returns the format of v, which has to be one of Versions.
func (v Version) wire() *wire {
	if v == Draft18 {
		return &draft18
	}
	panic("moqt: unknown version " + v.String())
}

// newest returns the format of the preferred version, which knows all messages and parameters of the others.
func newest() *wire { return Versions()[0].wire() }

func (w *wire) parameter(typ ParameterType) (parameterFormat, bool) {
	i := slices.IndexFunc(w.parameters, func(f parameterFormat) bool { return f.typ == typ })
	if i < 0 {
		return parameterFormat{}, false
	}
	return w.parameters[i], true
}
