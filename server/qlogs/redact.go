package qlogs

import (
	"slices"

	http3 "github.com/quic-go/quic-go/http3/qlog"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"

	"sluice/transport"
)

// redact returns an event without what opens something to whoever has it. The event itself does not change.
func redact(e qlogwriter.Event) qlogwriter.Event {
	switch e := e.(type) {
	case qlog.PacketSent:
		e.Header.Token, e.Frames = nil, redactFrames(e.Frames)
		return e
	case qlog.PacketReceived:
		e.Header.Token, e.Frames = nil, redactFrames(e.Frames)
		return e
	case qlog.PacketBuffered:
		e.Header.Token = nil
		return e
	case qlog.PacketDropped:
		e.Header.Token = nil
		return e
	case qlog.PacketLost:
		e.Header.Token = nil
		return e
	case qlog.ParametersSet:
		e.StatelessResetToken, e.PreferredAddress = nil, nil
		return e
	case http3.FrameCreated:
		e.Frame = redactHeaders(e.Frame)
		return e
	case http3.FrameParsed:
		e.Frame = redactHeaders(e.Frame)
		return e
	}
	return e
}

func redactFrames(frames []qlog.Frame) []qlog.Frame {
	redacted := func(f qlog.Frame) bool {
		switch f.Frame.(type) {
		case *qlog.NewTokenFrame, *qlog.NewConnectionIDFrame:
			return true
		}
		return false
	}
	if !slices.ContainsFunc(frames, redacted) {
		return frames
	}
	frames = slices.Clone(frames)
	for i, f := range frames {
		switch f := f.Frame.(type) {
		case *qlog.NewTokenFrame:
			frames[i].Frame = &qlog.NewTokenFrame{}
		case *qlog.NewConnectionIDFrame:
			frames[i].Frame = &qlog.NewConnectionIDFrame{
				SequenceNumber: f.SequenceNumber, RetirePriorTo: f.RetirePriorTo, ConnectionID: f.ConnectionID,
			}
		}
	}
	return frames
}

// shownHeaders are header fields whose values say nothing about who sends them.
var shownHeaders = []string{
	":method", ":scheme", ":authority", ":protocol", ":status", "content-type", "content-length",
	"wt-available-protocols", "wt-protocol",
}

// redactHeaders returns an HTTP/3 frame whose header fields are those above, and the path without its query.
func redactHeaders(f http3.Frame) http3.Frame {
	h, ok := f.Frame.(http3.HeadersFrame)
	if !ok {
		return f
	}
	h.HeaderFields = slices.Clone(h.HeaderFields)
	for i := range h.HeaderFields {
		switch field := &h.HeaderFields[i]; {
		case field.Name == ":path":
			field.Value = transport.WithoutQuery(field.Value)
		case !slices.Contains(shownHeaders, field.Name):
			field.Value = ""
		}
	}
	return http3.Frame{Frame: h}
}
