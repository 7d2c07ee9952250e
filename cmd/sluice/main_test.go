package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/internal/cli"
	"sluice/moqt"
	"sluice/player/client"
	"sluice/player/pub"
	"sluice/player/sub"
)

func TestExitCodes(t *testing.T) {
	other := errors.New("other")
	for _, c := range []struct {
		err  error
		code int
	}{
		{&pub.InputError{Err: other}, cli.ExitMedia},
		{&sub.MediaError{Err: other}, cli.ExitMedia},
		{&sub.OutputError{Err: other}, cli.ExitMedia},
		{errDiffers, cli.ExitDiffers},
		{&client.ConnectError{Err: other}, cli.ExitConnection},
		{&moqt.RequestError{}, cli.ExitRefused},
		{errors.Join(other, &moqt.RequestError{}), cli.ExitRefused},
	} {
		code, ok := exitCode(fmt.Errorf("wrapped: %w", c.err))
		require.True(t, ok, "%v", c.err)
		require.Equal(t, c.code, code, "%v", c.err)
	}
	_, ok := exitCode(other)
	require.False(t, ok)
}
