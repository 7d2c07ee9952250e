package natsengine

import (
	"testing"

	"sluice/internal/certtest"
)

// authority issues the certificates of nodes.
type authority struct{ *certtest.Authority }

func newAuthority(t *testing.T) *authority { return &authority{certtest.New(t)} }

// issue writes the files of a node of this machine.
func (a *authority) issue(t *testing.T) TLS { return TLS(a.Issue(t)) }
