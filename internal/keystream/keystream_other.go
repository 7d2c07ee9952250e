//go:build !amd64

package keystream

const hasAVX2 = false

var runAVX2 = runLibrary
