package qlog

import (
	"github.com/quic-go/quic-go/qlogwriter"

	"sluice/moqt"
)

// schema is the draft's, as its section on identification wants it.
const schema = "urn:ietf:params:qlog:events:moqt-05"

func init() { qlogwriter.RegisterEventSchema(schema) }

// Recorder records the events of a session. A nil Recorder records nothing, and costs no more than a comparison. Its
// methods may be called on any goroutine.
type Recorder struct{ to qlogwriter.Recorder }

// New returns a Recorder for the qlog of a connection, or nil if there is none.
func New(t qlogwriter.Trace) *Recorder {
	if t == nil {
		return nil
	}
	return &Recorder{t.AddProducer()}
}

// Direction says which end has made something.
type Direction bool

// Directions.
const (
	Created Direction = false // by this end
	Parsed  Direction = true  // it has come from the peer
)

// Message records a control message on a stream. It belongs to a request, whose ID drafts since 17 write in its first
// message only.
func (r *Recorder) Message(d Direction, stream int64, request uint64, m moqt.Message) {
	if r != nil {
		setup, _ := m.(*moqt.Setup)
		data := object{{"stream_id", uint64(stream)}, {"message", message(request, m)}}
		r.to.RecordEvent(event{nameOf("control_message", d), data, setup})
	}
}

// Control records that a stream is a control stream.
func (r *Recorder) Control(d Direction, stream int64) {
	if r != nil {
		r.streamType(d, stream, "control")
	}
}

func (r *Recorder) streamType(d Direction, stream int64, name string) {
	owner := "local"
	if d == Parsed {
		owner = "remote"
	}
	r.to.RecordEvent(event{name: "moqt:stream_type_set", data: object{
		{"owner", owner}, {"stream_id", uint64(stream)}, {"stream_type", name},
	}})
}

// Subgroup records the type and the header of a subgroup stream.
func (r *Recorder) Subgroup(d Direction, stream int64, h moqt.SubgroupHeader) {
	if r == nil {
		return
	}
	r.streamType(d, stream, "subgroup_header")
	o := object{
		{"stream_id", uint64(stream)}, {"track_alias", h.TrackAlias}, {"group_id", h.GroupID},
		{"subgroup_id_mode", uint64(h.SubgroupIDMode)},
	}
	if h.SubgroupIDMode == moqt.SubgroupIDPresent {
		o = append(o, field{"subgroup_id", h.SubgroupID})
	}
	o = o.priority(h.DefaultPriority, h.Priority)
	r.record(d, "subgroup_header", append(o,
		field{"contains_end_of_group", h.EndOfGroup}, field{"properties_present", h.HasProperties}))
}

// Fetch records the type and the header of a stream with the objects of a FETCH.
func (r *Recorder) Fetch(d Direction, stream int64, request uint64) {
	if r != nil {
		r.streamType(d, stream, "fetch_header")
		r.record(d, "fetch_header", object{{"stream_id", uint64(stream)}, {"request_id", request}})
	}
}

// Datagram records an object in a datagram.
func (r *Recorder) Datagram(d Direction, h *moqt.ObjectDatagram) {
	if r == nil {
		return
	}
	o := object{{"track_alias", h.TrackAlias}, {"group_id", h.Location.Group}, {"object_id", h.Location.Object}}
	o = o.priority(h.DefaultPriority, h.Priority)
	if len(h.Properties) > 0 {
		o = append(o, field{"properties_length", uint64(len(h.Properties))},
			field{"properties", properties(h.Properties)})
	}
	if h.Status != moqt.StatusNormal {
		o = append(o, field{"object_status", uint64(h.Status)})
	}
	r.record(d, "object_datagram", append(o,
		field{"object_payload", length(len(h.Payload))}, field{"end_of_group", h.EndOfGroup}))
}

func (r *Recorder) record(d Direction, what string, data object) {
	r.to.RecordEvent(event{name: nameOf(what, d), data: data})
}

func nameOf(what string, d Direction) string {
	if d == Parsed {
		return "moqt:" + what + "_parsed"
	}
	return "moqt:" + what + "_created"
}
