package moqt

import "slices"

// wire is the wire format of one version: what its messages, parameters, streams and datagrams are called and how
// each of them is laid out. Code that works on several versions asks this table instead of comparing versions. The
// objects on streams are not in it: a version that lays them out differently gets a parser and an encoder of its own.
type wire struct {
	messages   map[MessageType]messageFormat
	parameters []parameterFormat // in ascending order of type
	streams    streamTypes
	data       DataLayout
}

// streamTypes are the types with which unidirectional streams and datagrams start, other than those of the DataLayout.
type streamTypes struct {
	fetch, setup, padding uint64
	paddingDatagram       uint64
}

func (w *wire) parameter(typ ParameterType) (parameterFormat, bool) {
	i := slices.IndexFunc(w.parameters, func(f parameterFormat) bool { return f.typ == typ })
	if i < 0 {
		return parameterFormat{}, false
	}
	return w.parameters[i], true
}
