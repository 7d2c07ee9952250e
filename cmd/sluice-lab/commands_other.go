//go:build !linux

package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/lab"
)

var errLinux = &lab.MissingError{What: "network namespaces, which only Linux has"}

func newLab(*cli.Environment) *cobra.Command           { return needsLinux("lab") }
func newBench(*cli.Environment) *cobra.Command         { return needsLinux("bench") }
func newForwarding(*cli.Environment) *cobra.Command    { return needsLinux("forwarding") }
func newBenchLoad(*cli.Environment) *cobra.Command     { return needsLinux("bench-load") }
func newBenchRelay(*cli.Environment) *cobra.Command    { return needsLinux("bench-relay") }
func newBenchDescribe(*cli.Environment) *cobra.Command { return needsLinux("bench-describe") }

// needsLinux returns a command that only says so.
func needsLinux(name string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: "Needs Linux", DisableFlagParsing: true, Hidden: strings.HasPrefix(name, "bench-"),
		RunE: func(*cobra.Command, []string) error { return errLinux },
	}
}

func openLabStage(context.Context, int, int, lab.Conditions) (stage, error) { return nil, errLinux }
