package signed

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPrivateKeys(t *testing.T) {
	name := filepath.Join(t.TempDir(), "key.jwk")
	for _, algorithm := range []string{"EdDSA", "ES256", "RS256", "HS256"} {
		key, err := NewKey(algorithm)
		require.NoError(t, err)
		require.NotEmpty(t, key.KeyID)
		b, err := key.MarshalJSON()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, b, 0o600))
		read, err := ReadPrivateKey(name)
		require.NoError(t, err)
		require.Equal(t, key.KeyID, read.KeyID)
		require.Equal(t, algorithm == "HS256", IsSecret(read))
		set, err := parseKeys(b)
		require.NoError(t, err, "the relay takes the file, too")
		require.Len(t, set, 1)
		if IsSecret(key) {
			continue
		}
		public := key.Public()
		b, err = public.MarshalJSON()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, b, 0o600))
		_, err = ReadPrivateKey(name)
		require.ErrorContains(t, err, "a public key")
	}
	_, err := NewKey("RS512")
	require.ErrorContains(t, err, `algorithm: "RS512": must be EdDSA, ES256, RS256 or HS256`)
	for text, want := range map[string]string{
		"secret words":            "not a JSON Web Key",
		`{"kty":"oct","k":"AAA"}`: "a secret must have at least 32",
	} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		_, err = ReadPrivateKey(name)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "words")
	}
}
