package moqt

import (
	"net/url"
	"slices"
	"strings"
)

// Setup Option types (draft §15.4).
const (
	OptionPath                  uint64 = 0x01
	OptionMaxRequestID          uint64 = 0x02 // draft-16
	OptionAuthorizationToken    uint64 = 0x03
	OptionMaxAuthTokenCacheSize uint64 = 0x04
	OptionAuthority             uint64 = 0x05
	OptionMaxFilterRanges       uint64 = 0x06 // since draft-19
	OptionImplementation        uint64 = 0x07
	OptionMaxRequestUpdates     uint64 = 0x08 // since draft-19
)

// Setup is the first message on each control stream (draft §10.3).
type Setup struct {
	Path                  *string // §10.3.1.2; raw QUIC clients only
	Authority             *string // §10.3.1.1; raw QUIC clients only
	AuthorizationTokens   []Token // §10.3.1.4
	MaxAuthTokenCacheSize uint64  // §10.3.1.3; bytes, 0 forbids aliases
	Implementation        string  // §10.3.1.5; empty: absent

	// Limits for the peer, which are not sent before draft-19 (draft-20 §10.3.1.6, §10.3.1.7).
	MaxFilterRanges   uint64 // ranges in the Range Filters of a request; 0: none
	MaxRequestUpdates uint64 // unanswered updates of a request; 0: any number

	// Of draft-lcurley-moq-cluster: see hops.go.
	HopID       *uint64 // of the sender, in HOP_ID
	RelayHops   *uint64 // of the sender, in RELAY_HOPS
	RelayCost   *uint64 // the price of a subscription at the sender; absent means 1
	RequestHops bool    // the sender takes HOP_PATH in requests

	// Of draft-16.
	Server       bool   // it is a SERVER_SETUP
	MaxRequestID uint64 // the Request IDs of the peer are smaller

	Renditions bool // the sender takes RENDITION and PLAYBACK: see rendition.go

	// Unknown holds the options that this package does not know, in ascending order, for extensions and grease.
	Unknown []KeyValuePair
}

// Type implements Message.
func (*Setup) Type() MessageType { return MessageSetup }

func (m *Setup) fields(c *coder) {
	if c.writes {
		m.writeOptions(c)
		return
	}
	if !c.wire.references {
		m.readOptions(c)
		return
	}
	m.readOptions16(c)
}

func (m *Setup) writeOptions(c *coder) {
	c.fail(checkTokens(m.AuthorizationTokens))
	options := slices.Clone(m.Unknown)
	add := func(typ uint64, value []byte) {
		options = append(options, KeyValuePair{Type: typ, Bytes: value})
	}
	if m.Path != nil {
		add(OptionPath, []byte(*m.Path))
	}
	for _, t := range m.AuthorizationTokens {
		add(OptionAuthorizationToken, t.encoded(c))
	}
	if m.MaxAuthTokenCacheSize > 0 {
		options = append(options, KeyValuePair{Type: OptionMaxAuthTokenCacheSize, Value: m.MaxAuthTokenCacheSize})
	}
	if m.Authority != nil {
		add(OptionAuthority, []byte(*m.Authority))
	}
	if m.Implementation != "" {
		add(OptionImplementation, []byte(m.Implementation))
	}
	if m.RelayHops != nil && !c.wire.references {
		add(OptionRelayHops, AppendVarint(nil, *m.RelayHops))
	}
	if c.wire.limitOptions && m.MaxFilterRanges > 0 {
		options = append(options, KeyValuePair{Type: OptionMaxFilterRanges, Value: m.MaxFilterRanges})
	}
	if c.wire.limitOptions && m.MaxRequestUpdates > 0 {
		options = append(options, KeyValuePair{Type: OptionMaxRequestUpdates, Value: m.MaxRequestUpdates})
	}
	number := func(typ uint64, value *uint64) {
		if value != nil {
			options = append(options, KeyValuePair{Type: typ, Value: *value})
		}
	}
	if c.wire.references {
		m.writeOptions16(c, options)
		return
	}
	number(OptionHopID, m.HopID)
	number(OptionRelayCost, m.RelayCost)
	if m.RequestHops {
		number(OptionRequestHops, new(uint64(1)))
	}
	if m.Renditions {
		number(OptionRenditions, new(renditionsVersion))
	}
	c.pairs(options)
}

// readOptions reads the options, which are the rest of the message, and returns how many there are.
func (m *Setup) readOptions(c *coder) (count uint64) {
	for prev := uint64(0); len(c.b) > 0; count++ {
		option, n, err := c.wire.varint().parsePair(c.b, prev)
		if err != nil {
			if err == ErrIncomplete {
				err = violation("payload ends within a setup option")
			}
			c.fail(err)
			return count
		}
		c.b = c.b[n:]
		known := m.option(c, option)
		if known && option.Type == prev && option.Type != OptionAuthorizationToken {
			c.fail(violation("setup option %#x appears twice", option.Type))
		}
		prev = option.Type
	}
	return count
}

// option stores one option and reports whether it is known.
func (m *Setup) option(c *coder, option KeyValuePair) (known bool) {
	if c.wire.references {
		return m.option16(c, option)
	}
	return m.laterOption(c, option)
}

// laterOption does the same for drafts since 18, and for the options of draft-16 that they have too.
func (m *Setup) laterOption(c *coder, option KeyValuePair) (known bool) {
	if !c.wire.limitOptions && (option.Type == OptionMaxFilterRanges || option.Type == OptionMaxRequestUpdates) {
		m.keep(option)
		return false
	}
	switch option.Type {
	case OptionMaxFilterRanges:
		m.MaxFilterRanges = option.Value
	case OptionMaxRequestUpdates:
		m.MaxRequestUpdates = option.Value
	case OptionPath:
		m.Path = new(string(option.Bytes))
	case OptionAuthorizationToken:
		appendToken(c, &m.AuthorizationTokens, option.Bytes)
	case OptionMaxAuthTokenCacheSize:
		m.MaxAuthTokenCacheSize = option.Value
	case OptionAuthority:
		m.Authority = new(string(option.Bytes))
	case OptionImplementation:
		m.Implementation = string(option.Bytes)
	case OptionHopID:
		m.HopID = &option.Value
	case OptionRelayHops:
		m.RelayHops = new(relayHops(c, option.Bytes))
	case OptionRelayCost:
		m.RelayCost = &option.Value
	case OptionRequestHops:
		m.RequestHops = option.Value == 1
	case OptionRenditions:
		m.Renditions = option.Value == renditionsVersion
	default:
		m.keep(option)
		return false
	}
	return true
}

// keep stores an option that is not known.
func (m *Setup) keep(option KeyValuePair) {
	option.Bytes = slices.Clone(option.Bytes)
	m.Unknown = append(m.Unknown, option)
}

// Character classes of RFC 3986 §2, besides letters, digits and "_".
const (
	unreserved = "-.~"
	subDelims  = "!$&'()*+,;="
)

// validPath reports whether s is path-abempty [ "?" query ] (RFC 3986 §3.3, §3.4).
func validPath(s string) bool {
	path, query, _ := strings.Cut(s, "?")
	if path != "" && path[0] != '/' {
		return false
	}
	return validURIText(path, unreserved+subDelims+":@/") && validURIText(query, unreserved+subDelims+":@/?")
}

// validAuthority reports whether s is an authority with a host that is not empty (RFC 3986 §3.2, draft §3.1.1).
func validAuthority(s string) bool {
	if !validURIText(s, unreserved+subDelims+":@[]") {
		return false
	}
	u, err := url.Parse("moqt://" + s)
	return err == nil && u.Hostname() != ""
}

// validURIText reports whether s consists of letters, digits, "_", percent-encoded bytes and the characters in others.
func validURIText(s, others string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '%':
			if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
				return false
			}
			i += 2
		case isLiteral(c), strings.IndexByte(others, c) >= 0:
		default:
			return false
		}
	}
	return true
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// MaxURILen is the longest New Session URI, in bytes (draft §10.4). The draft sets no limit for the Connect URI of a
// Redirect; this package uses the same one.
const MaxURILen = 8192

// Goaway asks the peer to move to another session, or on a request stream to move that request (draft §10.4). Peers
// built on the Rust crate moq-transport 0.17 know no field but the URI, and close the session over the others.
type Goaway struct {
	NewSessionURI string // empty: the current one; always empty if a client sends it
	Timeout       uint64 // milliseconds until the sender closes the session or resets the stream; 0: unspecified
	// RequestID is the smallest Request ID of the peer that was not processed. Only draft-18 has it, on the control
	// stream only; other versions do not send it.
	RequestID *uint64
}

// Type implements Message.
func (*Goaway) Type() MessageType { return MessageGoaway }

func (m *Goaway) fields(c *coder) {
	c.text(&m.NewSessionURI, MaxURILen, "URI")
	if c.wire.references { // draft-16 has no more
		return
	}
	c.varint(&m.Timeout)
	if !c.writes && len(c.b) > 0 && c.wire.goawayRequestID {
		m.RequestID = new(uint64)
	}
	if m.RequestID != nil && c.wire.goawayRequestID {
		c.varint(m.RequestID)
	}
}
