//go:build !unix

package load

import "errors"

func cpuTime() (CPUTime, error) { return CPUTime{}, errors.ErrUnsupported }
