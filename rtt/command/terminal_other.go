//go:build !linux

package command

import "os"

// makeRaw changes nothing: sluice-rtt top runs on Linux only.
func makeRaw(*os.File) (restore func(), err error) { return func() {}, nil }

func screenSize(*os.File) (width, height int) { return 80, 24 }
