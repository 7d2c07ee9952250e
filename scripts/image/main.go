// Command image makes container images, without a daemon, and checks one.
//
//	image make DESCRIPTION NAME FOLDER ARCHITECTURE=BINARY...
//	image check FOLDER ARCHITECTURE
//
// make writes an OCI layout with an image of each architecture: the binary, the certificates of authorities, and what
// DESCRIPTION names, which is dist/image.json for the relay. SOURCE_DATE_EPOCH is the time of everything, so that the
// same binaries make the same bytes. check reads all of a layout, compares it with its hashes, and writes the files of
// an architecture's image to standard output, as a tar archive.
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) >= 5 && args[0] == "make":
		return makeLayout(args[1], args[2], args[3], args[4:])
	case len(args) == 3 && args[0] == "check":
		return check(args[1], args[2], os.Stdout)
	}
	return errors.New("usage: image make DESCRIPTION NAME FOLDER ARCHITECTURE=BINARY... or check FOLDER ARCHITECTURE")
}
