package moqt

import "slices"

// wire is the wire format of one version: what its messages, parameters, streams and datagrams are called and how
// each of them is laid out. Code that works on several versions asks this table instead of comparing versions.
type wire struct {
	messages   map[MessageType]messageFormat
	parameters []parameterFormat // in ascending order of type
	streams    streamTypes
}

// streamTypes are the types with which unidirectional streams and datagrams start, apart from the families of
// SUBGROUP_HEADER and OBJECT_DATAGRAM.
type streamTypes struct {
	setup, fetch, padding uint64
	paddingDatagram       uint64
}

// wire returns the format of v, which has to be one of Versions.
func (v Version) wire() *wire {
	if v == Draft18 {
		return &draft18
	}
	panic("moqt: unknown version " + v.String())
}

func (w *wire) parameter(typ ParameterType) (parameterFormat, bool) {
	i := slices.IndexFunc(w.parameters, func(f parameterFormat) bool { return f.typ == typ })
	if i < 0 {
		return parameterFormat{}, false
	}
	return w.parameters[i], true
}
