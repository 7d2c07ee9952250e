package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWideLines(t *testing.T) {
	fits, wide := strings.Repeat("ö", maxColumns), strings.Repeat("x", maxColumns+1)
	tabs := "\t" + strings.Repeat("x", maxColumns-tabColumns+1)
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"a.go", fits + "\n", nil},
		{"a.go", fits + "\n" + wide + "\n", []string{"a.go:2: 121 columns"}},
		{"a.go", tabs, []string{"a.go:1: 121 columns"}},
		{"a.md", "| " + wide + " |\n" + wide + "\n", []string{"a.md:2: 121 columns"}},
	} {
		require.Equal(t, c.want, wideLines(c.name, []byte(c.text)))
	}
}

func TestChecked(t *testing.T) {
	for name, want := range map[string]bool{
		"relay/hub.go": true, "fastpath/bpf/shared/claim.h": true, "README.md": true,
		"fastpath/kernel_bpfel.go": false, "third_party/README.md": false, "testdata/clip.mp4": false,
	} {
		require.Equal(t, want, checked(name), name)
	}
}
