package signed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/relay"
)

// forgeries is a format whose tokens are all forged. It counts the keys that are tried.
type forgeries struct{ tried *int }

func (forgeries) Recognizes(moqt.Token) bool      { return true }
func (f forgeries) Parse([]byte) (Token, error)   { return f, nil }
func (forgeries) KeyID() string                   { return "" }
func (forgeries) Signed() []byte                  { return nil }
func (forgeries) Claims() (*Claims, error)        { return &Claims{}, nil }
func (f forgeries) Verify(*jose.JSONWebKey) error { *f.tried++; return errors.New("forged") }

// TestManyForgeries has a request with as many tokens as SETUP and the request may have. Not all are tried.
func TestManyForgeries(t *testing.T) {
	var ids []string
	for i := range maxKeys {
		ids = append(ids, fmt.Sprint(i))
	}
	name := filepath.Join(t.TempDir(), "keys.json")
	require.NoError(t, os.WriteFile(name, []byte(setOf(t, ids...)), 0o600))
	keys, err := OpenKeys(name, quiet)
	require.NoError(t, err)
	tried := 0
	s, err := New(forgeries{&tried}, keys, Rules{})
	require.NoError(t, err)
	var r relay.AuthRequest
	for i := range 2 * moqt.MaxAuthTokens {
		r.Tokens = append(r.Tokens, moqt.Token{Value: []byte{byte(i)}})
	}
	_, err = s.Authorize(t.Context(), r)
	require.Error(t, err)
	require.Equal(t, maxTries, tried)
}
