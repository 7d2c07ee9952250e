package congestion

// maxFilter is the maximum of the current period and the previous one.
type maxFilter struct{ previous, current float64 }

func (f *maxFilter) add(x float64) { f.current = max(f.current, x) }

func (f *maxFilter) value() float64 { return max(f.previous, f.current) }

// next begins a period.
func (f *maxFilter) next() { f.previous, f.current = f.current, 0 }
