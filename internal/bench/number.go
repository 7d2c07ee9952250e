package bench

import (
	"math"
	"strconv"
	"strings"
)

// number is a value as people read it. NaN is a value that is not known.
type number float64

var unknown = number(math.NaN())

func (n number) finite() bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// String has three significant digits, and all digits before the decimal point.
func (n number) String() string {
	v := float64(n)
	if !n.finite() {
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

// MarshalJSON writes what no drawing needs more digits than, and null for what is not known.
func (n number) MarshalJSON() ([]byte, error) {
	if !n.finite() {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'g', 5, 64), nil
}

func numbers(values []float64) []number {
	out := make([]number, len(values))
	for i, v := range values {
		out[i] = number(v)
	}
	return out
}

// withUnit is the name of a column or an axis. Either may be empty.
func withUnit(title, unit string) string {
	if title == "" || unit == "" {
		return title + unit
	}
	return title + ", " + unit
}
