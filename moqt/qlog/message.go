package qlog

import (
	"encoding/hex"
	"strings"

	"sluice/moqt"
	"sluice/transport"
)

// maxListed is how many properties, or unknown options, of a message an event has: a peer may send thousands.
const maxListed = 64

func hexadecimal(s string) string { return hex.EncodeToString([]byte(s)) }

// message returns a control message. The draft has fields of version 16 that later versions have not, such as the
// Request ID in responses, and lacks what later versions have.
func message(request uint64, m moqt.Message) object {
	o := object{{"type", messageType(m)}}
	if id := moqt.PartsOf(m).RequestID; id != nil {
		o = o.request(*id)
	}
	switch m := m.(type) {
	case *moqt.Setup:
		return append(o, field{"setup_options", setupOptions(m)})
	case *moqt.Goaway:
		return append(o, field{"new_session_uri", length(len(m.NewSessionURI))}, field{"timeout", m.Timeout})
	case *moqt.Subscribe:
		return append(o.track(m.Track), parameters(&m.Parameters)...)
	case *moqt.TrackStatus:
		return append(o.track(m.Track), parameters(&m.Parameters)...)
	case *moqt.Publish:
		o = append(o.track(m.Track), field{"track_alias", m.TrackAlias})
		return append(append(o, parameters(&m.Parameters)...), field{"track_properties", properties(m.Properties)})
	case *moqt.Fetch:
		return append(append(o, fetch(m)...), parameters(&m.Parameters)...)
	case *moqt.PublishNamespace:
		return append(append(o, field{"track_namespace", namespace(m.Namespace)}), parameters(&m.Parameters)...)
	case *moqt.SubscribeNamespace:
		options := "namespace"
		if m.WithTracks {
			options = "both"
		}
		return append(o.prefix(m.Prefix, options), parameters(&m.Parameters)...)
	case *moqt.SubscribeTracks:
		return append(o.prefix(m.Prefix, "publish"), parameters(&m.Parameters)...)
	case *moqt.RequestUpdate:
		return append(append(o, field{"existing_request_id", request}), parameters(&m.Parameters)...)
	case *moqt.NamespaceAdded:
		return append(o, field{"track_namespace_suffix", namespace(m.Suffix)})
	case *moqt.NamespaceDone:
		return append(o, field{"track_namespace_suffix", namespace(m.Suffix)})
	case *moqt.PublishBlocked:
		return append(o, field{"track_namespace_suffix", namespace(m.Suffix)},
			field{"track_name", byteString(m.TrackName)})
	}
	return append(append(o, field{"request_id", request}), response(m)...)
}

// response returns the fields of a message that refers to the request of its stream, but for the Request ID.
func response(m moqt.Message) (o object) {
	switch m := m.(type) {
	case *moqt.SubscribeOK:
		o = append(object{{"track_alias", m.TrackAlias}}, parameters(&m.Parameters)...)
		return append(o, field{"track_properties", properties(m.Properties)})
	case *moqt.RequestOK:
		return parameters(&m.Parameters)
	case *moqt.RequestError:
		o = object{{"error_code", uint64(m.Code)}, {"retry_interval", m.RetryInterval}}
		return append(o, text("reason", m.Reason)...)
	case *moqt.PublishDone:
		o = object{{"status_code", uint64(m.Status)}, {"stream_count", m.StreamCount}}
		return append(o, text("reason", m.Reason)...)
	case *moqt.FetchOK:
		o = object{{"end_of_track", bit(m.EndOfTrack)}, {"end_location", location(m.End)}}
		o = append(o, parameters(&m.Parameters)...)
		return append(o, field{"track_properties", properties(m.Properties)})
	case *moqt.StateNotify:
		return parameters(&m.Parameters)
	case *moqt.MaxRequestID:
		return object{{"max_request_id", m.Max}}
	}
	return nil
}

// messageType returns the name of a message, in the draft's spelling.
func messageType(m moqt.Message) string {
	switch m.Type() {
	case moqt.MessagePublishBlocked: // whose name has changed since
		return "publish_blocked"
	case moqt.MessageSetup:
		return "setup"
	}
	return strings.ToLower(m.Type().String())
}

func setupOptions(m *moqt.Setup) []object {
	all := []object{}
	add := func(name string, o ...field) { all = append(all, append(object{{"name", name}}, o...)) }
	if m.Authority != nil {
		add("authority", field{"value", printable(*m.Authority)})
	}
	if m.Path != nil {
		add("path", field{"value", printable(transport.WithoutQuery(*m.Path))})
	}
	if m.MaxAuthTokenCacheSize > 0 {
		add("max_auth_token_cache_size", field{"value", m.MaxAuthTokenCacheSize})
	}
	for _, t := range m.AuthorizationTokens {
		alias := map[moqt.AliasType]string{moqt.AliasDelete: "delete", moqt.AliasRegister: "register",
			moqt.AliasUse: "use_alias", moqt.AliasUseValue: "use_value"}[t.AliasType]
		add("authorization_token", token(t, alias)...)
	}
	if m.Implementation != "" {
		add("implementation", field{"value", printable(m.Implementation)})
	}
	for _, p := range m.Unknown[:min(len(m.Unknown), maxListed)] {
		add("unknown", pair("name_bytes", p)...)
	}
	return all
}

// token returns all of an authorization token but its value.
func token(t moqt.Token, aliasType any) (o object) {
	o = object{{"alias_type", aliasType}}
	if t.AliasType != moqt.AliasUseValue {
		o = append(o, field{"token_alias", t.Alias})
	}
	if t.AliasType == moqt.AliasRegister || t.AliasType == moqt.AliasUseValue {
		o = append(o, field{"token_type", t.Type})
	}
	return o
}

func printable(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func namespace(ns moqt.Namespace) []object {
	all := []object{}
	for _, s := range ns {
		all = append(all, byteString(s))
	}
	return all
}

func byteString(s string) object { return text("value", s) }

func location(l moqt.Location) object { return object{{"group", l.Group}, {"object", l.Object}} }

// fetch returns what a FETCH asks for. The relative fetches of version 20 have a track, and no request to join.
func fetch(m *moqt.Fetch) object {
	joining := object{{"joining_request_id", m.JoiningRequestID}, {"joining_start", m.JoiningStart}}
	switch m.FetchType {
	case moqt.FetchStandalone:
		return object{{"fetch_type", "standalone"}, {"standalone_fetch", append(object{}.track(m.Track),
			field{"start_location", location(m.Start)}, field{"end_location", location(m.End)})}}
	case moqt.FetchRelative:
		return object{{"fetch_type", "relative"},
			{"relative_fetch", append(object{}.track(m.Track), field{"joining_start", m.JoiningStart})}}
	case moqt.FetchRelativeJoining:
		return object{{"fetch_type", "relative_joining"}, {"joining_fetch", joining}}
	}
	return object{{"fetch_type", "absolute_joining"}, {"joining_fetch", joining}}
}

// parameters returns the parameters that the draft knows, but no token. There are others.
func parameters(p *moqt.Parameters) object {
	all := []object{}
	for _, t := range p.AuthorizationTokens {
		all = append(all, append(object{{"name", "authorization_token"}}, token(t, uint64(t.AliasType))...))
	}
	parameter(&all, "delivery_timeout", p.ObjectDeliveryTimeout, number)
	parameter(&all, "rendezvous_timeout", p.RendezvousTimeout, number)
	parameter(&all, "subscriber_priority", p.SubscriberPriority, number)
	parameter(&all, "group_order", p.GroupOrder, number)
	parameter(&all, "subscription_filter", p.Filter, filter)
	parameter(&all, "expires", p.Expires, number)
	parameter(&all, "largest_object", p.LargestObject, func(l moqt.Location) any { return location(l) })
	parameter(&all, "forward", p.Forward, func(b bool) any { return bit(b) })
	parameter(&all, "new_group_request", p.NewGroupRequest, number)
	return object{{"number_of_parameters", uint64(len(all))}, {"parameters", all}}
}

// parameter adds a parameter, unless it is absent.
func parameter[T any](all *[]object, name string, v *T, convert func(T) any) {
	if v != nil {
		*all = append(*all, object{{"name", name}, {"value", convert(*v)}})
	}
}

func number[T ~uint8 | ~uint64](n T) any { return uint64(n) }

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func filter(f moqt.Filter) any {
	o := object{{"filter_type", uint64(f.Type)}}
	switch f.Type {
	case moqt.FilterAbsoluteRange, moqt.FilterObjectRange:
		return append(o, field{"start_location", location(f.Start)}, field{"end_group_delta", f.EndGroupDelta})
	case moqt.FilterAbsoluteStart:
		return append(o, field{"start_location", location(f.Start)})
	}
	return o
}

// properties returns the numbers among properties, and the lengths of the others.
func properties(p moqt.Properties) []object {
	all := []object{}
	for kv := range p.All() {
		if len(all) == maxListed {
			break
		}
		all = append(all, pair("type", kv))
	}
	return all
}

func pair(name string, p moqt.KeyValuePair) object {
	if p.Type%2 == 0 {
		return object{{name, p.Type}, {"value", p.Value}}
	}
	return object{{name, p.Type}, {"length", uint64(len(p.Bytes))}}
}
