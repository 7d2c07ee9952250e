//go:build !linux

package load

import (
	"context"
	"errors"
)

func (g *generator) ping(context.Context) error { return errors.New("a bystander needs Linux") }
