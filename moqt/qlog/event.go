package qlog

import (
	"strings"
	"time"
	"unicode/utf8"

	http3 "github.com/quic-go/quic-go/http3/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
	"github.com/quic-go/quic-go/qlogwriter/jsontext"

	"sluice/moqt"
	"sluice/transport"
)

// event implements [qlogwriter.Event].
type event struct {
	name  string
	data  object
	setup *moqt.Setup // if it is this message
}

// PathOf returns the path of the URL that the client of a connection has dialed, without the query, and whether an
// event tells it: its SETUP, or its request for a session over WebTransport. isClient says whether this end is the
// client.
func PathOf(e qlogwriter.Event, isClient bool) (path string, told bool) {
	switch e := e.(type) {
	case event:
		if e.setup == nil || strings.HasSuffix(e.name, "_created") != isClient {
			return "", false
		}
		if e.setup.Path != nil {
			path = *e.setup.Path
		}
		return transport.WithoutQuery(path), true
	case http3.FrameParsed:
		return pathOfHeaders(e.Frame, !isClient)
	case http3.FrameCreated:
		return pathOfHeaders(e.Frame, isClient)
	}
	return "", false
}

func pathOfHeaders(f http3.Frame, ofClient bool) (path string, told bool) {
	headers, ok := f.Frame.(http3.HeadersFrame)
	if !ok || !ofClient {
		return "", false
	}
	for _, h := range headers.HeaderFields {
		if h.Name == ":path" {
			return transport.WithoutQuery(h.Value), true
		}
	}
	return "", false
}

// Name implements [qlogwriter.Event].
func (e event) Name() string { return e.name }

// Encode implements [qlogwriter.Event].
func (e event) Encode(to *jsontext.Encoder, _ time.Time) error {
	c := encoder{to: to}
	c.value(e.data)
	return c.err
}

// object is a JSON object whose fields have an order. Values are strings, uint64s, bools, objects, and arrays of
// objects.
type object []field

type field struct {
	name  string
	value any
}

func (o object) priority(absent bool, p uint8) object {
	if absent {
		return o
	}
	return append(o, field{"publisher_priority", uint64(p)})
}

// request appends the Request ID. Version 17 alone has had the second field; 0 is of a request that needs no other.
func (o object) request(id uint64) object {
	return append(o, field{"request_id", id}, field{"required_request_id_delta", uint64(0)})
}

func (o object) track(t moqt.FullTrackName) object {
	return append(o, field{"track_namespace", namespace(t.Namespace)}, field{"track_name", byteString(t.Name)})
}

func (o object) prefix(ns moqt.Namespace, options string) object {
	return append(o, field{"track_namespace_prefix", namespace(ns)}, field{"subscribe_options", options})
}

// length is the RawInfo of bytes that are not shown.
func length(n int) object { return object{{"length", uint64(n)}} }

// text returns a string, or bytes that are none, with the names that the draft has for both.
func text(name, s string) object {
	if utf8.ValidString(s) {
		return object{{name, s}}
	}
	return object{{name + "_bytes", hexadecimal(s)}}
}

// encoder writes values until one fails.
type encoder struct {
	to  *jsontext.Encoder
	err error
}

func (c *encoder) token(t jsontext.Token) {
	if c.err == nil {
		c.err = c.to.WriteToken(t)
	}
}

func (c *encoder) value(v any) {
	switch v := v.(type) {
	case string:
		c.token(jsontext.String(v))
	case uint64:
		c.token(jsontext.Uint(v))
	case bool:
		c.token(jsontext.Bool(v))
	case []object:
		c.token(jsontext.BeginArray)
		for _, o := range v {
			c.value(o)
		}
		c.token(jsontext.EndArray)
	case object:
		c.token(jsontext.BeginObject)
		for _, f := range v {
			c.token(jsontext.String(f.name))
			c.value(f.value)
		}
		c.token(jsontext.EndObject)
	}
}
