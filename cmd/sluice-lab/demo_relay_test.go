package main

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/lab/process"
)

// noStage starts no process. It notes the arguments of the last one.
type noStage struct {
	stage
	args []string
}

var errNoProcess = errors.New("no process is started")

func (s *noStage) command(_ context.Context, _ string, args ...string) (*process.Process, error) {
	s.args = args
	return nil, errNoProcess
}

// The demo runs relays as an operator does who sets no drop policy.
func TestDemoRelayHasDefaultDropPolicy(t *testing.T) {
	var s noStage
	d := &demo{stage: &s}
	require.ErrorIs(t, d.startRelay(t.Context(), "relay"), errNoProcess)
	require.NotContains(t, s.args, "--drop")
}
