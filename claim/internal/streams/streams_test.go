package streams

import (
	"testing"

	"sluice/claim/claimtest"
)

func TestOpening(t *testing.T)   { claimtest.Model(t, "../../..", Rules[Opening], Opening.New) }
func TestSwitching(t *testing.T) { claimtest.Model(t, "../../..", Rules[Switching], Switching.New) }
