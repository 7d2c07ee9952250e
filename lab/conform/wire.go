package conform

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"sluice/moqt"
)

// place is where a client writes the bytes of a wireRow.
type place uint8

const (
	inRequest    place = iota // on a request stream of its own
	inSetup                   // instead of SETUP
	onControl                 // after SETUP
	inStream                  // on a unidirectional stream, which then ends
	inDatagram                // in a datagram
	inAnswer                  // in response to a SUBSCRIBE of the relay
	inPublished               // on a stream of a track that the relay has accepted, which then ends
	inPublishedD              // in a datagram of such a track
)

// Session codes by short names.
const (
	violates   = moqt.SessionProtocolViolation
	formatting = moqt.SessionKeyValueFormattingError
	anyCode    = moqt.SessionErrorCode(1 << 40) // the draft names none
	goesOn     = anyCode + 1                    // the relay must not close the session
)

// wireRow is bytes that break a rule, or seem to.
type wireRow struct {
	section, name string
	where         place
	typ           moqt.MessageType // of a message whose payload the bytes are; 0: the bytes are everything
	hex           string
	want          moqt.SessionErrorCode
}

// field is a length and n bytes, in hexadecimal.
func field(n int) string {
	return hex.EncodeToString(moqt.AppendVarint(nil, uint64(n))) + strings.Repeat("61", n)
}

// fields is n fields of a namespace.
func fields(n int) string { return fmt.Sprintf("%02x", n) + strings.Repeat("0161", n) }

const (
	largest  = "ffffffffffffffffff" // 2^64-1
	nobody   = "00 00 00 "          // request 0, no namespace, an empty name
	setup    = moqt.MessageSetup
	sub      = moqt.MessageSubscribe
	pub      = moqt.MessagePublish
	announce = moqt.MessagePublishNamespace
	status   = moqt.MessageTrackStatus
)

// wireRows are for all drafts since 18.
var wireRows = []wireRow{
	{"1.4.3", "Setup Option beyond 2^64-1", inSetup, setup, largest + "00 02", violates},
	{"1.4.3", "Setup Option longer than 2^16-1", inSetup, setup, "07 c10000", violates},
	{"1.4.3", "Track Property beyond 2^64-1", inRequest, pub, "00 00 00 00 00" + largest + "00 01 00", violates},
	{"1.4.3", "Track Property longer than 2^16-1", inRequest, pub, "00 00 00 00 00 0d c10000", violates},
	{"1.4.4", "Reason Phrase of 1,025 bytes", inAnswer, moqt.MessageRequestError, "00 00" + field(1025), violates},
	{"2.4.1", "namespace of 33 fields", inRequest, announce, "00" + fields(33) + "00", violates},
	{"2.4.1", "empty field of a namespace", inRequest, sub, "00 01 00 00 00", violates},
	{"2.4.1", "namespace of 4,097 bytes", inRequest, announce, "00 02" + field(4096) + field(1) + "00", violates},
	{"2.4.1", "Full Track Name of 4,097 bytes in SUBSCRIBE", inRequest, sub, "00 01" + field(1) + field(4096) + "00",
		violates},
	{"2.4.1", "Full Track Name of 4,097 bytes in PUBLISH", inRequest, pub, "00 01" + field(1) + field(4096) + "00 00",
		violates},
	{"2.4.1", "Full Track Name of 4,097 bytes in TRACK_STATUS", inRequest, status,
		"00 01" + field(1) + field(4096) + "00", violates},
	{"2.4.1", "Full Track Name of 4,096 bytes is right", inRequest, sub, "00 01" + field(1) + field(4095) + "00",
		goesOn},
	{"3.3", "request stream that begins with REQUEST_OK", inRequest, moqt.MessageRequestOK, "00", violates},
	{"3.3", "request stream that begins with GOAWAY", inRequest, moqt.MessageGoaway, "00 00", violates},
	{"3.3", "request stream that begins with NAMESPACE", inRequest, moqt.MessageNamespace, "01 0161", violates},
	{"3.3", "request stream that begins with REQUEST_UPDATE", inRequest, moqt.MessageRequestUpdate, "00 00", violates},
	{"3.4", "unknown unidirectional stream type", inStream, 0, "06", anyCode},
	{"10", "unknown message type", inRequest, 0x7777, "", anyCode},
	{"10", "unknown message type on the control stream", onControl, 0x7777, "", anyCode},
	{"10", "SUBSCRIBE on the control stream", onControl, sub, nobody + "00", anyCode},
	{"10", "second SETUP", onControl, setup, "", anyCode},
	{"10", "length beyond the message", inRequest, announce, "00 01 0161 00 00", violates},
	{"10", "length within the message", inRequest, sub, "00 00", violates},
	{"10.2", "parameter type beyond 2^64-1", inRequest, sub, nobody + "02 10 01" + largest + "00", violates},
	{"10.2", "unknown parameter", inRequest, sub, nobody + "01 05 00", violates},
	{"10.2", "unknown parameter among the values of grease", inRequest, sub, nobody + "01 809d 00", violates},
	{"10.2", "more parameters than counted", inRequest, sub, nobody + "00 10 01", violates},
	{"10.2", "fewer parameters than counted", inRequest, sub, nobody + "02 10 01", violates},
	{"10.2.1", "EXPIRES in SUBSCRIBE", inRequest, sub, nobody + "01 08 01", violates},
	{"10.2.1", "FORWARD in TRACK_STATUS", inRequest, status, nobody + "01 10 01", violates},
	{"10.2.1", "RENDEZVOUS_TIMEOUT in PUBLISH", inRequest, pub, nobody + "00 01 04 01", violates},
	{"10.2.1", "GROUP_ORDER in PUBLISH_NAMESPACE", inRequest, announce, "00 01 0161 01 22 01", violates},
	{"10.2.2", "token with an unknown Alias Type", inRequest, sub, nobody + "01 03 01 04", formatting},
	{"10.2.2", "empty token", inRequest, sub, nobody + "01 03 00", formatting},
	{"10.2.2", "token without its type", inRequest, sub, nobody + "01 03 01 03", formatting},
	{"10.2.2", "token that cannot be decoded, in SETUP", inSetup, setup, "03 01 04", formatting},
	{"10.2.2", "DELETE in SETUP", inSetup, setup, "03 02 00 01", violates},
	{"10.2.2", "USE_ALIAS in SETUP", inSetup, setup, "03 02 02 01", violates},
	{"10.2.2", "alias that is not registered", inRequest, sub, nobody + "01 03 02 02 01",
		moqt.SessionUnknownAuthTokenAlias},
	{"10.2.8", "GROUP_ORDER 0", inRequest, sub, nobody + "01 22 00", violates},
	{"10.2.8", "GROUP_ORDER 3", inRequest, sub, nobody + "01 22 03", violates},
	{"10.2.12", "FORWARD 2 in SUBSCRIBE", inRequest, sub, nobody + "01 10 02", violates},
	{"10.2.12", "FORWARD 2 in PUBLISH", inRequest, pub, nobody + "00 01 10 02", violates},
	{"10.4", "GOAWAY with a URI of 8,193 bytes", onControl, moqt.MessageGoaway, field(8193) + "00 01", violates},
	{"10.18", "prefix of 33 fields", inRequest, moqt.MessageSubscribeNamespace, "00" + fields(33) + "00", violates},
	{"10.19", "prefix of 33 fields", inRequest, moqt.MessageSubscribeTracks, "00" + fields(33) + "00", violates},
	{"11", "unknown datagram type", inDatagram, 0, "10", anyCode},
	{"11.2.1.2", "properties of an object with a status", inPublished, 0, "11 07 00 80 00 02 04 01 00 03", violates},
	{"11.3.1", "datagram with properties of length 0", inPublishedD, 0, "01 07 00 00 80 00 61", violates},
	{"11.3.1", "datagram with a status and END_OF_GROUP", inPublishedD, 0, "22 07 00 00 80 03", violates},
	{"11.3.1", "datagram with a status and properties", inPublishedD, 0, "21 07 00 00 80 02 04 01 03", violates},
	{"11.4.2", "SUBGROUP_HEADER of a reserved type", inPublished, 0, "16 07 00 80 00 01 61", violates},
	{"11.4.2", "Object ID beyond 2^64-1", inPublished, 0, "10 07 00 80" + largest + "01 61 00 01 61", violates},
	{"12.5", "DEFAULT_PUBLISHER_GROUP_ORDER 0", inRequest, pub, "00 00 00 00 00 22 00", violates},
	{"12.5", "DEFAULT_PUBLISHER_GROUP_ORDER 3", inRequest, pub, "00 00 00 00 00 22 03", violates},
	{"12.5", "DEFAULT_PUBLISHER_GROUP_ORDER 3 in SUBSCRIBE_OK", inAnswer, moqt.MessageSubscribeOK, "07 00 22 03",
		violates},
	{"12.6", "DYNAMIC_GROUPS 2", inRequest, pub, "00 00 00 00 00 30 02", violates},
	{"14", "unknown Track Property", inRequest, pub, "00 01 0161 01 78 07 00 809d 01 ff", goesOn},
	{"1.4.1", "integers longer than necessary", inRequest, sub, "8000 01 0161 8000 c00000", goesOn},
}

// olderRows are for the drafts 18 and 19, whose FETCH and filters later ones have in another form.
var olderRows = []wireRow{
	{"2.4.1", "Full Track Name of 4,097 bytes in FETCH", inRequest, moqt.MessageFetch,
		"00 01 01" + field(1) + field(4096) + "00 00 00 00 00", violates},
	{"5.1.2", "filter type 0", inRequest, sub, nobody + "01 21 01 00", violates},
	{"5.1.2", "filter type 5", inRequest, sub, nobody + "01 21 01 05", violates},
	{"5.1.2", "end group beyond 2^64-1", inRequest, sub, nobody + "01 21 0c 04" + largest + "00 01", violates},
	{"10.12", "Fetch Type 0", inRequest, moqt.MessageFetch, "00 00 00 00 00", violates},
	{"10.12", "Fetch Type 4", inRequest, moqt.MessageFetch, "00 04 00 00 00", violates},
}

// newerRows are for the drafts since 20.
var newerRows = []wireRow{
	{"20 10.2.15", "FILL_PARAMETERS in FETCH", inRequest, moqt.MessageFetch, nobody + "01 23 01 00", violates},
	{"20 10.2.15", "FORWARD in FILL_PARAMETERS", inRequest, sub, nobody + "01 23 03 01 10 01", violates},
	{"20 10.2.15", "FILL_PARAMETERS in FILL_PARAMETERS", inRequest, sub, nobody + "01 23 04 01 23 01 00", violates},
	{"20 10.2.21", "INCLUDE_PROPERTIES 2", inRequest, sub, nobody + "01 35 02", violates},
	{"20 10.2.21", "INCLUDE_PROPERTIES in PUBLISH", inRequest, pub, nobody + "00 01 35 01", violates},
}

func wireCases() (cases []Case) {
	for _, rows := range []struct {
		rows     []wireRow
		from, to moqt.Version
	}{{wireRows, moqt.Draft18, 0}, {olderRows, moqt.Draft18, moqt.Draft19}, {newerRows, moqt.Draft20, 0}} {
		for _, r := range rows.rows {
			cases = append(cases, Case{
				Section: r.section, Name: r.name, from: rows.from, to: rows.to, run: r.run,
			})
		}
	}
	return cases
}

// bytes returns what the client writes.
func (r wireRow) bytes() (b []byte) {
	payload, err := hex.DecodeString(strings.ReplaceAll(r.hex, " ", ""))
	if err != nil {
		panic(err)
	}
	if r.typ == 0 {
		return payload
	}
	b = moqt.AppendVarint(nil, uint64(r.typ))
	return append(binary.BigEndian.AppendUint16(b, uint16(len(payload))), payload...)
}

func (r wireRow) run(t *trial) {
	var p *peer
	switch r.where {
	case inSetup:
		p = &peer{trial: t, conn: t.dial()}
		p.uni(r.bytes())
	case inAnswer:
		e := askedToPublish(t)
		_, _ = e.Write(r.bytes())
		p = e.peer
	case inPublished, inPublishedD:
		p = published(t)
	default:
		p = join(t)
	}
	switch r.where {
	case inRequest:
		p.raw(r.bytes())
	case onControl:
		_, _ = p.control.Write(r.bytes())
	case inStream, inPublished:
		_ = p.uni(r.bytes()).Close()
	case inDatagram, inPublishedD:
		p.must(p.conn.SendDatagram(r.bytes()), "a datagram can be sent")
	}
	switch r.want {
	case goesOn:
		p.alive()
	case anyCode:
		p.closes(p.conn)
	default:
		p.closes(p.conn, r.want)
	}
}
