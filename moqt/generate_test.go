package moqt

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

func anyNamespace() *rapid.Generator[Namespace] {
	return rapid.Custom(func(t *rapid.T) Namespace {
		ns := Namespace{}
		for range rapid.IntRange(0, MaxNamespaceFields).Draw(t, "fields") {
			ns = append(ns, anyBytes(t, 1, 100))
		}
		return ns
	})
}

func anyTrack() *rapid.Generator[FullTrackName] {
	return rapid.Custom(func(t *rapid.T) FullTrackName {
		return FullTrackName{anyNamespace().Draw(t, "namespace"), anyBytes(t, 0, 800)}
	})
}

func anyBytes(t *rapid.T, least, most int) string {
	return string(rapid.SliceOfN(rapid.Byte(), least, most).Draw(t, "bytes"))
}

func anyLocation() *rapid.Generator[Location] {
	return rapid.Custom(func(t *rapid.T) Location {
		return Location{anyUint64().Draw(t, "group"), anyUint64().Draw(t, "object")}
	})
}

func anyToken() *rapid.Generator[Token] {
	return rapid.Custom(func(t *rapid.T) Token {
		token := Token{AliasType: AliasType(rapid.Uint64Range(0, 3).Draw(t, "alias type"))}
		if token.AliasType.hasAlias() {
			token.Alias = anyUint64().Draw(t, "alias")
		}
		if token.AliasType.hasValue() {
			token.Type = anyUint64().Draw(t, "type")
			token.Value = []byte(anyBytes(t, 0, 100))
		}
		return token
	})
}

// anyFilter draws a filter that v can express.
func anyFilter(v Version) *rapid.Generator[Filter] {
	return rapid.Custom(func(t *rapid.T) Filter {
		types := []FilterType{
			FilterRelativeStart, FilterLargestObject, FilterAbsoluteStart, FilterAbsoluteRange, FilterNone,
			FilterObjectRange,
		}
		if v < Draft20 {
			types = types[:4]
		}
		f := Filter{Type: rapid.SampledFrom(types).Draw(t, "type")}
		if f.Type >= FilterAbsoluteStart {
			f.Start = anyLocation().Draw(t, "start")
		}
		if f.Type >= FilterAbsoluteRange {
			f.EndGroupDelta = rapid.Uint64Max(^f.Start.Group).Draw(t, "end group delta")
		}
		if f.Type == FilterObjectRange {
			f.EndObject = anyUint64().Draw(t, "end object")
		}
		if f.Type == FilterRelativeStart && v >= Draft20 {
			f.Groups = anyUint64().Draw(t, "groups")
		}
		if v < Draft22 && v >= Draft20 && f.Everywhere() {
			return Filter{} // the only form
		}
		return f
	})
}

// anyRangeFilters draws filters of one type.
func anyRangeFilters(t *rapid.T, typ ParameterType) (filters RangeFilters) {
	for set := range uint8(rapid.IntRange(1, 3).Draw(t, "sets")) {
		f := RangeFilter{Type: typ, Set: set}
		if f.hasProperty() {
			f.Property = 2 * rapid.Uint64Max(1<<62).Draw(t, "property")
		}
		numbers := rapid.SliceOfN(rapid.Uint64Max(255), 2, 8).Draw(t, "numbers")
		slices.Sort(numbers)
		for ; len(numbers) > 1; numbers = numbers[2:] {
			f.Ranges = append(f.Ranges, ValueRange{numbers[0], numbers[1]})
		}
		if rapid.Bool().Draw(t, "open") {
			f.Ranges[len(f.Ranges)-1].Last = 1<<64 - 1
		}
		filters = append(filters, f)
	}
	return filters
}

// anyParameters draws parameters that may appear in allowed.
func anyParameters(t *rapid.T, v Version, allowed scope) (p Parameters) {
	for _, f := range v.wire().parameters {
		if f.scope&allowed != 0 && rapid.Bool().Draw(t, fmt.Sprintf("parameter %#x", f.typ)) {
			drawParameter(t, v, &p, f.typ)
		}
	}
	return p
}

func drawParameter(t *rapid.T, v Version, p *Parameters, typ ParameterType) {
	number := anyUint64().Draw(t, "value")
	switch typ {
	case ParameterObjectDeliveryTimeout:
		p.ObjectDeliveryTimeout = &number
	case ParameterAuthorizationToken:
		p.AuthorizationTokens = rapid.SliceOfN(anyToken(), 1, 3).Draw(t, "tokens")
	case ParameterRendezvousTimeout:
		p.RendezvousTimeout = &number
	case ParameterSubgroupDeliveryTimeout:
		p.SubgroupDeliveryTimeout = &number
	case ParameterExpires:
		p.Expires = &number
	case ParameterLargestObject:
		p.LargestObject = new(anyLocation().Draw(t, "location"))
	case ParameterFillTimeout:
		p.FillTimeout = &number
	case ParameterForward:
		p.Forward = new(number%2 == 1)
	case ParameterSubscriberPriority:
		p.SubscriberPriority = new(uint8(number))
	case ParameterLocationFilter:
		p.Filter = new(anyFilter(v).Draw(t, "filter"))
	case ParameterFillParameters:
		p.Fill = new(anyParameters(t, v, inFill))
	case ParameterSubgroupFilter, ParameterObjectIDFilter, ParameterPriorityFilter, ParameterObjectPropertyFilter,
		ParameterTrackPropertyFilter:
		p.RangeFilters = append(p.RangeFilters, anyRangeFilters(t, typ)...)
	case ParameterIncludeProperties:
		p.IncludeProperties = new(number%2 == 1)
	case ParameterGroupOrder:
		p.GroupOrder = new(GroupOrder(1 + number%2))
	case ParameterNewGroupRequest:
		p.NewGroupRequest = &number
	case ParameterTrackNamespacePrefix:
		p.NamespacePrefix = new(anyNamespace().Draw(t, "prefix"))
	case ParameterHopPath:
		p.HopPath = rapid.SliceOfNDistinct(anyUint64(), 1, MaxHops, rapid.ID).Draw(t, "hops")
	case ParameterRouteCost:
		p.RouteCost = &number
	case ParameterRendition:
		p.Rendition = &Rendition{
			Set: number, Bitrate: anyUint64().Draw(t, "bitrate"), Width: anyUint64().Draw(t, "width"),
			Height: anyUint64().Draw(t, "height"),
		}
	case ParameterPlayback:
		p.Playback = &Playback{
			Buffered: number, Dropped: anyUint64().Draw(t, "dropped"), Width: anyUint64().Draw(t, "width"),
			Height: anyUint64().Draw(t, "height"),
		}
	default:
		panic(fmt.Sprintf("no generator for parameter %#x", uint64(typ)))
	}
}

// anyTrackProperties draws properties that CheckTrack accepts, without types whose values it restricts.
func anyTrackProperties(t *rapid.T) Properties {
	pairs := anyPairs(0x100, 1<<62).Draw(t, "properties")
	if rapid.Bool().Draw(t, "known") {
		pairs = append(pairs,
			KeyValuePair{Type: PropertyDynamicGroups, Value: rapid.Uint64Max(1).Draw(t, "dynamic groups")},
			KeyValuePair{Type: PropertyDefaultPublisherPriority, Value: rapid.Uint64Max(255).Draw(t, "priority")},
			KeyValuePair{Type: PropertyDefaultPublisherGroupOrder, Value: rapid.Uint64Range(1, 2).Draw(t, "order")})
	}
	p, err := NewProperties(pairs...)
	if err != nil {
		panic(err)
	}
	return p
}

// anyObjectProperties draws properties that CheckObject accepts, of types that are neither known nor mandatory, with
// numbers up to most.
func anyObjectProperties(t *rapid.T, most uint64) Properties {
	pairs := append(anyPairs(0x100, 0x3fff).Draw(t, "properties"), anyPairs(0x8000, most/2).Draw(t, "more")...)
	for i := range pairs {
		pairs[i].Value = min(pairs[i].Value, most)
	}
	p, err := NewProperties(pairs...)
	if err != nil {
		panic(err)
	}
	return p
}

func anyPairs(least, most uint64) *rapid.Generator[[]KeyValuePair] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) KeyValuePair {
		pair := KeyValuePair{Type: rapid.Uint64Range(least, most).Draw(t, "type")}
		if pair.Type%2 == 0 {
			pair.Value = anyUint64().Draw(t, "value")
		} else {
			pair.Bytes = []byte(anyBytes(t, 0, 50))
		}
		return pair
	}), 0, 5)
}

// anyMessage draws any message that can be sent.
func anyMessage(v Version) *rapid.Generator[Message] {
	id := anyUint64()
	return rapid.Custom(func(t *rapid.T) Message {
		switch rapid.IntRange(0, 18).Draw(t, "message") {
		case 0:
			return anySetup(t, v)
		case 1:
			m := &Goaway{NewSessionURI: strings.Repeat("x", rapid.IntRange(0, MaxURILen).Draw(t, "uri")),
				Timeout: id.Draw(t, "t")}
			if v == Draft18 && rapid.Bool().Draw(t, "control") {
				m.RequestID = new(id.Draw(t, "id"))
			}
			return m
		case 2:
			return &Subscribe{id.Draw(t, "id"), anyTrack().Draw(t, "track"), anyParameters(t, v, inSubscribe)}
		case 3:
			return &SubscribeOK{id.Draw(t, "alias"), anyParameters(t, v, inSubscribeOK), anyTrackProperties(t)}
		case 4:
			return &Publish{
				id.Draw(t, "id"), anyTrack().Draw(t, "track"), id.Draw(t, "alias"),
				anyParameters(t, v, inPublish), anyTrackProperties(t),
			}
		case 5:
			return &PublishDone{
				substitute(v.wire().former.done, PublishDoneCode(id.Draw(t, "code"))),
				rapid.OneOf(rapid.Uint64Max(1<<62-2), rapid.Just(uint64(UnknownStreamCount))).Draw(t, "streams"),
				anyBytes(t, 0, 50),
			}
		case 6:
			m := &Fetch{
				RequestID: id.Draw(t, "id"), FetchType: FetchStandalone, Track: anyTrack().Draw(t, "track"),
				Start: anyLocation().Draw(t, "start"), Parameters: anyParameters(t, v, inFetch),
			}
			m.Parameters.Filter = nil
			m.End = Location{rapid.Uint64Min(m.Start.Group).Draw(t, "end group"), id.Draw(t, "end object")}
			return m
		case 7:
			if v >= Draft20 {
				return &Fetch{
					RequestID: id.Draw(t, "id"), FetchType: FetchRelative, Track: anyTrack().Draw(t, "track"),
					JoiningStart: id.Draw(t, "start"),
				}
			}
			return &Fetch{
				RequestID: id.Draw(t, "id"), FetchType: FetchType(rapid.Uint64Range(2, 3).Draw(t, "type")),
				JoiningRequestID: id.Draw(t, "joining"), JoiningStart: id.Draw(t, "start"),
				Parameters: anyParameters(t, v, inFetch),
			}
		case 8:
			return &FetchOK{
				rapid.Bool().Draw(t, "end of track"), anyLocation().Draw(t, "end"),
				anyParameters(t, v, inFetchOK), anyTrackProperties(t),
			}
		case 9:
			return &TrackStatus{id.Draw(t, "id"), anyTrack().Draw(t, "track"), anyParameters(t, v, inTrackStatus)}
		case 10:
			return &PublishNamespace{id.Draw(t, "id"), anyNamespace().Draw(t, "ns"),
				anyParameters(t, v, inPublishNamespace)}
		case 11:
			return &SubscribeNamespace{RequestID: id.Draw(t, "id"), Prefix: anyNamespace().Draw(t, "ns"),
				Parameters: anyParameters(t, v, inSubscribeNamespace)}
		case 12:
			return &SubscribeTracks{id.Draw(t, "id"), anyNamespace().Draw(t, "ns"),
				anyParameters(t, v, inSubscribeTracks)}
		case 13:
			m := &NamespaceAdded{Suffix: anyNamespace().Draw(t, "ns")}
			if rapid.Bool().Draw(t, "extended") {
				m.Parameters = new(anyParameters(t, v, inNamespace))
			}
			return m
		case 14:
			return &NamespaceDone{anyNamespace().Draw(t, "ns")}
		case 15:
			return &PublishBlocked{anyNamespace().Draw(t, "ns"), anyBytes(t, 0, 800)}
		case 16:
			return &RequestUpdate{id.Draw(t, "id"), anyParameters(t, v, inUpdate)}
		case 17:
			if v >= Draft20 {
				return &StateNotify{anyParameters(t, v, inStateNotify)}
			}
		}
		return anyAnswer(t, v)
	})
}

func anySetup(t *rapid.T, v Version) *Setup {
	m := &Setup{
		AuthorizationTokens:   rapid.SliceOfN(anyToken(), 1, 3).Draw(t, "tokens"),
		MaxAuthTokenCacheSize: anyUint64().Draw(t, "cache"),
		Implementation:        anyBytes(t, 0, 20),
	}
	if rapid.Bool().Draw(t, "path") {
		m.Path, m.Authority = new(anyBytes(t, 0, 20)), new(anyBytes(t, 0, 20))
	}
	if v >= Draft19 && rapid.Bool().Draw(t, "limits") {
		m.MaxFilterRanges, m.MaxRequestUpdates = anyUint64().Draw(t, "ranges"), anyUint64().Draw(t, "updates")
	}
	if rapid.Bool().Draw(t, "hops") {
		m.HopID, m.RelayHops = new(anyUint64().Draw(t, "hop id")), new(anyUint64().Draw(t, "relay hops"))
		m.RelayCost, m.RequestHops = new(anyUint64().Draw(t, "relay cost")), rapid.Bool().Draw(t, "request hops")
	}
	m.Renditions = rapid.Bool().Draw(t, "renditions")
	if rapid.Bool().Draw(t, "unknown") {
		m.Unknown = []KeyValuePair{
			{Type: 0x9d, Bytes: []byte{1}}, {Type: 0x9d, Bytes: []byte{}}, {Type: 0x9e, Value: 3},
		}
	}
	return m
}

func anyAnswer(t *rapid.T, v Version) Message {
	if rapid.Bool().Draw(t, "ok") {
		return &RequestOK{anyParameters(t, v, inRequestOK), anyTrackProperties(t)}
	}
	m := &RequestError{
		Code:          substitute(v.wire().former.request, RequestErrorCode(anyUint64().Draw(t, "code"))),
		RetryInterval: anyUint64().Draw(t, "retry"),
		Reason:        anyBytes(t, 0, 50),
	}
	if rapid.Bool().Draw(t, "redirect") {
		m.Code = RequestRedirect
	}
	if m.Code == RequestRedirect {
		m.Redirect = &Redirect{anyBytes(t, 0, 50), anyTrack().Draw(t, "track")}
	}
	return m
}
