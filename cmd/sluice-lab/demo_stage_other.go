//go:build !linux

package main

import (
	"context"

	"sluice/lab"
)

func openLabStage(context.Context, int, int, lab.Conditions) (stage, error) {
	return nil, &lab.MissingError{What: "network namespaces, which only Linux has"}
}
