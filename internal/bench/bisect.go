package bench

import (
	"maps"
	"slices"
)

// bisect returns the largest number from 1 to limit for which good is true, if it is true up to some number and false beyond, with a
// relative resolution. It begins with first, and goes on by step, twice as far each time, until it has a number on either side; 0 means that
// not even 1 is good.
func bisect(first, step, limit int, resolution float64, good func(int) (bool, error)) (int, error) {
	low, high := 0, limit+1 // good, and not
	for n := min(first, limit); low < limit && float64(high-low) > max(1, resolution*float64(low)); step *= 2 {
		ok, err := good(n)
		if err != nil {
			return low, err
		}
		if ok {
			low = n
		} else {
			high = n
		}
		switch {
		case high > limit:
			n = min(low+step, limit)
		case low == 0:
			n = max(high/2, high-step)
		default:
			n = (low + high) / 2
		}
	}
	return low, nil
}

// seriesOf is a function of a number of subscribers, which takes the place of time.
func seriesOf(values map[int]float64) (s Series) {
	for _, n := range slices.Sorted(maps.Keys(values)) {
		s.Time = append(s.Time, float64(n))
		s.Value = append(s.Value, values[n])
	}
	return s
}
