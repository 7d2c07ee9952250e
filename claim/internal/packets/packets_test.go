package packets

import (
	"testing"

	"sluice/claim/claimtest"
)

func TestProtocol(t *testing.T) { claimtest.Model(t, "../../..", Rules, New) }
