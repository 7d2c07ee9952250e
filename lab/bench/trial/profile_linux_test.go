package trial

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

// The time belongs to the innermost function, also where the compiler has put it into another one.
func TestFunctions(t *testing.T) {
	inner, outer := &profile.Function{ID: 1, Name: "inner"}, &profile.Function{ID: 2, Name: "outer"}
	inlined := &profile.Location{ID: 1, Line: []profile.Line{{Function: inner}, {Function: outer}}}
	caller := &profile.Location{ID: 2, Line: []profile.Line{{Function: outer}}}
	unknown := &profile.Location{ID: 3, Address: 1}
	sample := func(count int64, at ...*profile.Location) *profile.Sample {
		return &profile.Sample{Location: at, Value: []int64{count, count * 10e6}}
	}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		Sample: []*profile.Sample{
			sample(3, inlined, caller), sample(1, caller), sample(2, inlined), sample(1, unknown),
		},
		Location: []*profile.Location{inlined, caller, unknown},
		Function: []*profile.Function{inner, outer},
	}
	var encoded bytes.Buffer
	require.NoError(t, p.Write(&encoded))
	used, err := functions(encoded.Bytes())
	require.NoError(t, err)
	require.Equal(t, map[string]time.Duration{"inner": 50 * time.Millisecond, "outer": 10 * time.Millisecond}, used)
	_, err = functions([]byte("not a profile"))
	require.Error(t, err)
}
