// Package bpf holds what the BPF programs of all packages have in common, and describes the convention that they
// follow.
//
// The programs of a package lie in its folder bpf, which is a Go package by that name:
//
//	fastpath/bpf, lab/bench/bpf, lab/bpf, rtt/bpf, rtt/flood/bpf,
//	server/steer/bpf
//	    doc.go           what the programs do, and the go:generate lines
//	    *.bpf.c          one source for each hook: thin entries over the headers
//	    *.h              the headers
//	    *_bpfel.go, .o   types, loaders and objects that bpf2go makes of them; committed
//
// include/sluice/types.h is for all of them. The compiler and its flags stand in the Makefile, which hands them to
// bpf2go in the environment: make generate compiles everything, and make check-generated reports whether what is
// committed is what the sources give.
//
// Nothing that C defines is written once more in Go. Structs and constants are generated from the objects' type
// information (BTF), so constants that Go needs are enums. A package that must not import bpf2go's code, because it is
// the leaf that all others import, gets its constants as a small file that the command internal/bpf/constants writes.
package bpf
