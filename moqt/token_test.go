package moqt

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTokenLimits checks that a message may have as many tokens as the limits say. TestMessageViolations has messages
// with more.
func TestTokenLimits(t *testing.T) {
	token := Token{AliasType: AliasUseValue, Value: make([]byte, MaxAuthTokenBytes/MaxAuthTokens)}
	tokens := slices.Repeat([]Token{token}, MaxAuthTokens)
	for _, m := range []Message{
		&Subscribe{Parameters: Parameters{AuthorizationTokens: tokens}},
		&Setup{AuthorizationTokens: tokens},
	} {
		b, err := AppendMessage(nil, Draft18, m)
		require.NoError(t, err)
		typ, payload := split(b)
		got, err := ParseMessage(Draft18, typ, payload)
		require.NoError(t, err)
		again, err := AppendMessage(nil, Draft18, got)
		require.NoError(t, err)
		require.Equal(t, b, again)
	}
}
