// Command testlog makes readable what go test -json writes, and keeps it.
//
//	go test -json ./... | testlog follow FILE    copies its input to FILE; prints packages, and what failed tests say
//	testlog summary FILE...                      prints the slowest packages and all failed tests; 1 if there are some
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	switch {
	case len(args) == 2 && args[0] == "follow":
		file, err := os.Create(args[1])
		if err != nil {
			return err
		}
		defer file.Close()
		_, err = read(io.TeeReader(in, file), out)
		return err
	case len(args) > 1 && args[0] == "summary":
		var all results
		for _, name := range args[1:] {
			file, err := os.Open(name)
			if err != nil {
				return err
			}
			part, err := read(file, io.Discard)
			_ = file.Close()
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			all.add(part)
		}
		return all.print(out)
	}
	return fmt.Errorf("%q: must be follow FILE, or summary and files", args)
}
