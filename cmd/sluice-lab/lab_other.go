//go:build !linux

package main

import (
	"errors"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
)

func newLab(*cli.Environment) *cobra.Command {
	return &cobra.Command{
		Use:   "lab",
		Short: "Run hosts in network namespaces (Linux only)",
		RunE: func(*cobra.Command, []string) error {
			return errors.New("lab needs network namespaces, which only Linux has")
		},
	}
}
