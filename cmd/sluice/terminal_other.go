//go:build !linux

package main

import "os"

// makeRaw leaves the terminal as it is: what is shown live is measured on Linux only.
func makeRaw(*os.File) (restore func(), err error) { return func() {}, nil }

func screenSize(*os.File) (width, height int) { return 80, 24 }
