package moqt

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestParameterDefaults(t *testing.T) {
	var none Parameters
	require.True(t, none.ForwardState())
	require.Equal(t, uint8(128), none.Priority())
	require.Equal(t, Descending, none.Order(Descending))

	set := Parameters{Forward: new(false), SubscriberPriority: new(uint8(0)), GroupOrder: new(Ascending)}
	require.False(t, set.ForwardState())
	require.Zero(t, set.Priority())
	require.Equal(t, Ascending, set.Order(Descending))
}

// TestMergeParameters checks that an update replaces the parameters that it has, and no others.
func TestMergeParameters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, update := anyParameters(t, newest, ^scope(0)), anyParameters(t, newest, ^scope(0))
		got := old
		got.Merge(&update)
		for _, f := range everyParameter {
			want := &old
			if f.count(&update) > 0 && f.typ != ParameterFillParameters {
				want = &update
			}
			require.Equal(t, encodedParameter(f, want), encodedParameter(f, &got), "parameter %#x", f.typ)
		}
	})
}

func encodedParameter(f parameterFormat, p *Parameters) []byte {
	c := coder{wire: newest.wire(), writes: true}
	for i := range f.count(p) {
		f.value(&c, p, i)
	}
	return c.b
}

// TestParameterOrder checks that the table is in ascending order, in which parameters are encoded.
func TestParameterOrder(t *testing.T) {
	for _, v := range laterVersions() {
		last := ParameterType(0)
		for _, f := range v.wire().parameters {
			require.Greater(t, f.typ, last)
			last = f.typ
		}
	}
}
