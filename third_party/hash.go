//go:build ignore

// Hash prints the hash of an unpacked module, as go.sum has it (h1). The go command checks hashes of what it downloads,
// but trusts what it has unpacked before.
//
//	go run hash.go MODULE@VERSION FOLDER
package main

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: hash MODULE@VERSION FOLDER")
		os.Exit(2)
	}
	sum, err := hash(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "hash:", err)
		os.Exit(1)
	}
	fmt.Println(sum)
}

// hash hashes a list of all files, sorted by name, with the hash of each.
func hash(module, folder string) (string, error) {
	var names []string
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	sort.Strings(names)
	list := sha256.New()
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		relative, err := filepath.Rel(folder, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(list, "%x  %s/%s\n", sha256.Sum256(text), module, filepath.ToSlash(relative))
	}
	return "h1:" + base64.StdEncoding.EncodeToString(list.Sum(nil)), nil
}
