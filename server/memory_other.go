//go:build !linux

package server

func dropProgram() {}
