//go:build !linux

package doctor

import "errors"

var errLinux = errors.New("needs Linux")

func deviceFeatures(string) (map[string]bool, error) { return nil, errLinux }
func synced() (bool, error)                          { return false, errLinux }
func askNftables(packet) (verdict, error)            { return verdict{}, errLinux }
