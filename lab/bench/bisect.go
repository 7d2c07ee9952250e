package bench

// bisect returns the largest number from 1 to limit that is good, within a relative resolution; 0 if good(1) is false.
// good must be true up to some number and false beyond. The search begins with first and goes on in steps, each twice
// as long as the last, until it has a number on either side.
func bisect(first, step, limit int, resolution float64, good func(int) (bool, error)) (int, error) {
	low, high := 0, limit+1 // good is true for low and false for high
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
