package moqt

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
)

func TestNewProperties(t *testing.T) {
	p, err := NewProperties(
		KeyValuePair{Type: 0x0d, Bytes: []byte("b")},
		KeyValuePair{Type: 0x04, Value: 5},
		KeyValuePair{Type: 0x0d, Bytes: []byte("a")},
	)
	require.NoError(t, err)
	require.Equal(t, unhex("04 05 09 01 62 00 01 61"), []byte(p), "ascending types, equal ones in their order")

	_, err = NewProperties(KeyValuePair{Type: 1, Bytes: make([]byte, MaxValueLen+1)})
	require.ErrorContains(t, err, "65536 bytes")
	p, err = NewProperties()
	require.NoError(t, err)
	require.Empty(t, p)
}

// withImmutable returns the given properties and others inside Immutable Properties.
func withImmutable(t require.TestingT, inside []KeyValuePair, pairs ...KeyValuePair) Properties {
	inner, err := NewProperties(inside...)
	require.NoError(t, err)
	p, err := NewProperties(append(pairs, KeyValuePair{Type: PropertyImmutable, Bytes: inner})...)
	require.NoError(t, err)
	return p
}

func TestLookup(t *testing.T) {
	p := withImmutable(t,
		[]KeyValuePair{{Type: 2, Value: 20}, {Type: 4, Value: 40}, {Type: 0x4000, Value: 1}},
		KeyValuePair{Type: 4, Value: 44}, KeyValuePair{Type: 0x0d, Bytes: []byte("x")})
	for typ, want := range map[uint64]uint64{2: 20, 4: 44, 0x4000: 1} {
		pair, ok := p.Lookup(typ)
		require.True(t, ok)
		require.Equal(t, want, pair.Value, "the mutable list comes first")
	}
	pair, ok := p.Lookup(0x0d)
	require.True(t, ok)
	require.Equal(t, []byte("x"), pair.Bytes)
	for _, typ := range []uint64{0, 3, 6, 0x0f} {
		_, ok := p.Lookup(typ)
		require.False(t, ok, "%#x", typ)
	}

	var types []uint64
	for pair := range p.All() {
		types = append(types, pair.Type)
	}
	require.Equal(t, []uint64{4, 0x0b, 0x0d}, types)
	require.Len(t, slices.Collect(p.Immutable().All()), 3)
	require.Nil(t, Properties{0x0d, 1, 'x'}.Immutable(), "another property is taken for immutable properties")
}

func TestTrackPropertyGetters(t *testing.T) {
	var none Properties
	require.Zero(t, none.SubgroupDeliveryTimeout())
	require.Zero(t, none.ObjectDeliveryTimeout())
	require.Equal(t, uint8(128), none.DefaultPublisherPriority())
	require.Equal(t, Ascending, none.DefaultPublisherGroupOrder())
	require.False(t, none.DynamicGroups())
	_, ok := none.MaxCacheDuration()
	require.False(t, ok)

	pairs := []KeyValuePair{
		{Type: PropertyObjectDeliveryTimeout, Value: 2},
		{Type: PropertyMaxCacheDuration, Value: 0},
		{Type: PropertySubgroupDeliveryTimeout, Value: 6},
		{Type: PropertyDefaultPublisherPriority, Value: 255},
		{Type: PropertyDefaultPublisherGroupOrder, Value: 2},
		{Type: PropertyDynamicGroups, Value: 1},
	}
	mutable, err := NewProperties(pairs...)
	require.NoError(t, err)
	for _, p := range []Properties{mutable, withImmutable(t, pairs)} {
		require.NoError(t, p.CheckTrack())
		require.EqualValues(t, 6, p.SubgroupDeliveryTimeout())
		require.EqualValues(t, 2, p.ObjectDeliveryTimeout())
		require.Equal(t, uint8(255), p.DefaultPublisherPriority())
		require.Equal(t, Descending, p.DefaultPublisherGroupOrder())
		require.True(t, p.DynamicGroups())
		ms, ok := p.MaxCacheDuration()
		require.True(t, ok)
		require.Zero(t, ms)
	}
}

func TestMandatory(t *testing.T) {
	for _, tc := range []struct {
		name       string
		properties Properties
		want       uint64
	}{
		{"none", Properties{4, 5}, 0},
		{"below the range", withImmutable(t, nil, KeyValuePair{Type: 0x3fff}), 0},
		{"first", withImmutable(t, nil, KeyValuePair{Type: 0x4000}), 0x4000},
		{"last", withImmutable(t, nil, KeyValuePair{Type: 0x7fff}), 0x7fff},
		{"above the range", withImmutable(t, nil, KeyValuePair{Type: 0x8000}), 0},
		{"immutable", withImmutable(t, []KeyValuePair{{Type: 0x5000}}), 0x5000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			typ, found := tc.properties.Mandatory()
			require.Equal(t, tc.want, typ)
			require.Equal(t, tc.want != 0, found)
		})
	}
}

// TestCheckObject has a row for each condition of draft §2.5.1 and §12.7 to §12.9 that concerns one object.
func TestCheckObject(t *testing.T) {
	at := Location{10, 5}
	group, object := PropertyPriorGroupIDGap, PropertyPriorObjectIDGap
	for _, tc := range []struct {
		name       string
		properties Properties
		malformed  bool
	}{
		{"none", nil, false},
		{"gaps up to the first",
			withImmutable(t, nil, KeyValuePair{Type: group, Value: 10}, KeyValuePair{Type: object, Value: 5}), false},
		{"value of 2^16-1", withImmutable(t, nil, KeyValuePair{Type: 0x0d, Bytes: make([]byte, MaxValueLen)}), false},
		{"unknown types", withImmutable(t, nil, KeyValuePair{Type: Grease(0)}, KeyValuePair{Type: 0x38}), false},
		{"group gap too large", withImmutable(t, nil, KeyValuePair{Type: group, Value: 11}), true},
		{"object gap too large", withImmutable(t, nil, KeyValuePair{Type: object, Value: 6}), true},
		{"immutable group gap too large", withImmutable(t, []KeyValuePair{{Type: group, Value: 11}}), true},
		{"group gap twice", withImmutable(t, nil, KeyValuePair{Type: group}, KeyValuePair{Type: group}), true},
		{"group gap in both lists", withImmutable(t, []KeyValuePair{{Type: group}}, KeyValuePair{Type: group}), true},
		{"object gap in both lists", withImmutable(t, []KeyValuePair{{Type: object}}, KeyValuePair{Type: object}),
			true},
		{"immutable twice", unhex("0b 00 00 00"), true},
		{"immutable in immutable", unhex("0b 02 0b 00"), true},
		{"immutable cut short", unhex("0b 01 3c"), true},
		{"cut short", unhex("04 05 3c"), true},
		{"value cut short", unhex("0d 02 00"), true},
		{"mandatory track property", withImmutable(t, nil, KeyValuePair{Type: 0x4000}), true},
		{"immutable mandatory track property", withImmutable(t, []KeyValuePair{{Type: 0x7fff}}), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.properties.CheckObject(at)
			if tc.malformed {
				requireMalformed(t, err)
			} else {
				require.NoError(t, err)
			}
		})
	}
	for name, properties := range map[string]string{
		"type above 2^64-1":        "ffffffffffffffffff 00 01",
		"value longer than 2^16-1": "01 c10000",
		"immutable value too long": "0b 04 01 c10000",
		"immutable type too large": "0b 0b ffffffffffffffffff 00 01",
	} {
		t.Run(name, func(t *testing.T) {
			requireCode(t, SessionProtocolViolation, Properties(unhex(properties)).CheckObject(at))
		})
	}

	p := withImmutable(t, []KeyValuePair{{Type: group, Value: 2}}, KeyValuePair{Type: object, Value: 3})
	groups, ok := p.PriorGroupIDGap()
	require.True(t, ok)
	require.EqualValues(t, 2, groups)
	objects, ok := p.PriorObjectIDGap()
	require.True(t, ok)
	require.EqualValues(t, 3, objects)
	_, ok = Properties{}.PriorGroupIDGap()
	require.False(t, ok)
}

func FuzzProperties(f *testing.F) {
	f.Add([]byte{}, uint64(0), uint64(0))
	both := withImmutable(f, []KeyValuePair{{Type: 0x3c, Value: 1}}, KeyValuePair{Type: 0x4d, Bytes: []byte("x")})
	f.Add([]byte(both), uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, b []byte, group, object uint64) {
		defer testlimit.Start(t, len(b), 1000)()
		p := Properties(b)
		track, single := p.CheckTrack(), p.CheckObject(Location{group, object})
		again, err := NewProperties(slices.Collect(p.All())...)
		require.NoError(t, err)
		if track == nil || single == nil {
			require.LessOrEqual(t, len(again), len(p))
			require.Equal(t, slices.Collect(p.All()), slices.Collect(again.All()), "All has skipped pairs")
		}
		p.Mandatory()
		for typ := range uint64(0x40) {
			p.Lookup(typ)
		}
	})
}

func TestTokenKeepsItsValueSecret(t *testing.T) {
	token := Token{AliasType: AliasRegister, Alias: 7, Type: 1, Value: []byte("hunter2")}
	m := &Subscribe{Parameters: Parameters{AuthorizationTokens: []Token{token}}}
	for _, text := range printed(m) {
		require.NotContains(t, text, "hunter2")
		require.NotContains(t, text, "aHVudGVyMg")                // in base64
		require.NotContains(t, strings.ToLower(text), "68756e74") // in hexadecimal
		require.NotContains(t, text, "104 117")                   // as numbers
		require.NotContains(t, text, "0x68, 0x75")
	}
	require.EqualValues(t, 16+7, token.CacheSize())
}
