package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/auth/signed"
)

func TestClaimsMakeNoLines(t *testing.T) {
	var b bytes.Buffer
	describeToken(&b, "JSON Web Token", "Käthe", "not verified", &signed.Claims{Issuer: "x\nsignature\tvalid"})
	require.Equal(t, `format     JSON Web Token
signature  not verified
key        Käthe
issuer     "x\nsignature\tvalid"
expires    never
allows     nothing
`, b.String())
}
