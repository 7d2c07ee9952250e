package doctor

import (
	"fmt"

	"github.com/safchain/ethtool"
	"golang.org/x/sys/unix"
)

// deviceFeatures returns the features that can be changed, and whether each is on.
func deviceFeatures(device string) (map[string]bool, error) {
	e, err := ethtool.NewEthtool()
	if err != nil {
		return nil, err
	}
	defer e.Close()
	states, err := e.FeaturesWithState(device)
	features := make(map[string]bool)
	for name, s := range states {
		if s.Available {
			features[name] = s.Active
		}
	}
	return features, err
}

// synced asks the kernel whether something keeps the clock right.
func synced() (bool, error) {
	state, err := unix.Adjtimex(new(unix.Timex))
	if err != nil {
		return false, fmt.Errorf("adjtimex: %w", err)
	}
	return state != unix.TIME_ERROR, nil
}
