package result

import (
	"math"
	"strconv"
	"strings"
)

// Number is a value as people read it. NaN stands for a value that is not known.
type Number float64

// Unknown is the Number of a value that is not known.
var Unknown = Number(math.NaN())

// Finite reports whether the value is known and not infinite.
func (n Number) Finite() bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// String returns three significant digits, and all digits before the decimal point.
func (n Number) String() string {
	v := float64(n)
	if !n.Finite() {
		return "–"
	}
	decimals := 0
	if v != 0 {
		decimals = min(max(2-int(math.Floor(math.Log10(math.Abs(v)))), 0), 6)
	}
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" {
		return "0"
	}
	return s
}

// Numbers converts values.
func Numbers(values []float64) []Number {
	out := make([]Number, len(values))
	for i, v := range values {
		out[i] = Number(v)
	}
	return out
}

// WithUnit returns the name of a column or an axis. Either part may be empty.
func WithUnit(title, unit string) string {
	if title == "" || unit == "" {
		return title + unit
	}
	return title + ", " + unit
}
