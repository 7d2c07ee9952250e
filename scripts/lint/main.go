// Command lint checks what vet and staticcheck do not: that no line of code or of a page is wider than 120 columns, and
// that the house does not grow (house.go).
//
// It reads the files that git tracks, and prints the counts of the house and each line that is too wide. It exits
// with 1 if a line is too wide or a count exceeds its limit. A tab counts as four columns. Rows of Markdown tables
// and go:generate lines may be wider, since they cannot be broken.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

const (
	maxColumns = 120
	tabColumns = 4
)

func main() {
	out, err := exec.Command("git", "ls-files").Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lint: git ls-files:", err)
		os.Exit(2)
	}
	wide, all := 0, &house{types: make(map[string]*typeCount)}
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		text, err := os.ReadFile(name)
		if !checked(name) || err != nil { // a file that was just deleted
			continue
		}
		for _, line := range wideLines(name, text) {
			fmt.Println(line)
			wide++
		}
		if err := all.add(name, text); err != nil {
			fmt.Fprintln(os.Stderr, "lint:", err)
			os.Exit(2)
		}
	}
	beyond := all.print(os.Stdout)
	if wide > 0 {
		fmt.Printf("%d lines are wider than %d columns\n", wide, maxColumns)
	}
	if wide > 0 || beyond {
		os.Exit(1)
	}
}

// checked reports whether people write a file, and read it as text.
func checked(name string) bool {
	if strings.HasPrefix(name, "third_party/") || strings.HasSuffix(name, "_bpfel.go") {
		return false
	}
	switch filepath.Ext(name) {
	case ".go", ".c", ".h", ".md":
		return true
	}
	return false
}

// wideLines returns the places of the lines that are too wide.
func wideLines(name string, text []byte) (places []string) {
	s := bufio.NewScanner(bytes.NewReader(text))
	s.Buffer(nil, 1<<24)
	for n := 1; s.Scan(); n++ {
		line := s.Text()
		if filepath.Ext(name) == ".md" && strings.HasPrefix(strings.TrimSpace(line), "|") ||
			strings.HasPrefix(line, "//go:generate ") {
			continue
		}
		if w := columns(line); w > maxColumns {
			places = append(places, fmt.Sprintf("%s:%d: %d columns", name, n, w))
		}
	}
	return places
}

func columns(line string) int {
	return utf8.RuneCountInString(line) + strings.Count(line, "\t")*(tabColumns-1)
}
