package moqt

import "slices"

// Setup Option types (draft §15.4).
const (
	OptionPath                  uint64 = 0x01
	OptionAuthorizationToken    uint64 = 0x03
	OptionMaxAuthTokenCacheSize uint64 = 0x04
	OptionAuthority             uint64 = 0x05
	OptionImplementation        uint64 = 0x07
)

// Setup is the first message on each control stream (draft §10.3).
type Setup struct {
	Path                  *string // §10.3.1.2; raw QUIC clients only
	Authority             *string // §10.3.1.1; raw QUIC clients only
	AuthorizationTokens   []Token // §10.3.1.4
	MaxAuthTokenCacheSize uint64  // §10.3.1.3; bytes, 0 forbids aliases
	Implementation        string  // §10.3.1.5; empty: not told

	// Unknown holds the options that this package does not know, in ascending order, for extensions and grease.
	Unknown []KeyValuePair
}

// Type implements Message.
func (*Setup) Type() MessageType { return MessageSetup }

func (m *Setup) encode(e *encoder) {
	options := slices.Clone(m.Unknown)
	add := func(typ uint64, value []byte) {
		options = append(options, KeyValuePair{Type: typ, Bytes: value})
	}
	if m.Path != nil {
		add(OptionPath, []byte(*m.Path))
	}
	for _, t := range m.AuthorizationTokens {
		add(OptionAuthorizationToken, appendToken(nil, t))
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
	b, err := appendKeyValuePairs(e.b, options)
	e.b = b
	e.fail(err)
}

func (m *Setup) decode(d *decoder) {
	prev := uint64(0)
	for len(d.b) > 0 {
		option, n, err := parseKeyValuePair(d.b, prev)
		if err != nil {
			if err == ErrIncomplete {
				err = violation("payload ends within a setup option")
			}
			d.fail(err)
			return
		}
		d.b = d.b[n:]
		known := m.option(d, option)
		if known && option.Type == prev && option.Type != OptionAuthorizationToken {
			d.fail(violation("setup option %#x appears twice", option.Type))
		}
		prev = option.Type
	}
}

// option stores one option and reports whether it is known.
func (m *Setup) option(d *decoder, option KeyValuePair) (known bool) {
	switch option.Type {
	case OptionPath:
		m.Path = new(string(option.Bytes))
	case OptionAuthorizationToken:
		t, err := parseToken(option.Bytes)
		d.fail(err)
		m.AuthorizationTokens = append(m.AuthorizationTokens, t)
	case OptionMaxAuthTokenCacheSize:
		m.MaxAuthTokenCacheSize = option.Value
	case OptionAuthority:
		m.Authority = new(string(option.Bytes))
	case OptionImplementation:
		m.Implementation = string(option.Bytes)
	default:
		option.Bytes = slices.Clone(option.Bytes)
		m.Unknown = append(m.Unknown, option)
		return false
	}
	return true
}
