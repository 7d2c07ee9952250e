package trial

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/google/pprof/profile"
)

// profileFor returns the CPU time of the functions of the first relay in a period. Sluice profiles itself: the kernel
// interrupts it after each 10 ms of CPU time. address is where it serves profiles in its own network.
func profileFor(ctx context.Context, period time.Duration, s site, address string) (map[string]time.Duration, error) {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%.0f", address, period.Seconds())
	b, err := get(ctx, s, 0, url)
	if err != nil {
		return nil, fmt.Errorf("profile the relay: %w", err)
	}
	return functions(b)
}

// functions returns the CPU time of each function in a profile of package runtime/pprof. A function that the compiler
// has put into others counts by itself.
func functions(encoded []byte) (map[string]time.Duration, error) {
	p, err := profile.Parse(bytes.NewReader(encoded))
	if err != nil {
		return nil, err
	}
	used := make(map[string]time.Duration)
	for _, s := range p.Sample {
		if len(s.Location) == 0 || len(s.Location[0].Line) == 0 {
			continue // code without a name, such as the vDSO
		}
		nanoseconds := s.Value[len(s.Value)-1]
		used[s.Location[0].Line[0].Function.Name] += time.Duration(nanoseconds)
	}
	return used, nil
}
