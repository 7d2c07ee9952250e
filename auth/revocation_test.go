package auth_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"sluice/auth"
	"sluice/auth/cat"
	"sluice/auth/jwt"
	"sluice/auth/signed"
	"sluice/moqt"
	"sluice/relay"
	"sluice/transport"
)

var quiet = slog.New(slog.DiscardHandler)

// keyOf returns a private key with an id.
func keyOf(id string) *jose.JSONWebKey {
	seed := make([]byte, ed25519.SeedSize)
	copy(seed, id)
	return &jose.JSONWebKey{Key: ed25519.NewKeyFromSeed(seed), KeyID: id, Algorithm: string(jose.EdDSA)}
}

// writeKeys writes the public halves of keys to a file, at once.
func writeKeys(t *testing.T, name string, ids ...string) {
	t.Helper()
	var set jose.JSONWebKeySet
	for _, id := range ids {
		set.Keys = append(set.Keys, keyOf(id).Public())
	}
	b, err := json.Marshal(set)
	require.NoError(t, err)
	require.NoError(t, errors.Join(os.WriteFile(name+".next", b, 0o600), os.Rename(name+".next", name)))
}

// formats make a signed token of each format.
var formats = map[string]struct {
	signed.Format
	sign func(*jose.JSONWebKey, *signed.Claims, []auth.Permission) (string, error)
}{"jwt": {jwt.Format{}, jwt.Sign}, "cat": {cat.Format{}, cat.Sign}}

// TestRevocation lets a client in by a signed token, beside other schemes. It has to go within a second after the token
// has expired, or after its key has gone from the file.
func TestRevocation(t *testing.T) {
	for name, f := range formats {
		for what, life := range map[string]time.Duration{"exp": time.Minute, "key": time.Hour} {
			t.Run(name+"/"+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tokens, keys := filepath.Join(t.TempDir(), "tokens"), filepath.Join(t.TempDir(), "keys.json")
					require.NoError(t, os.WriteFile(tokens, []byte("other all *\n"), 0o600))
					writeKeys(t, keys, "a", "b")
					file, err := auth.OpenTokenFile(tokens, quiet)
					require.NoError(t, err)
					set, err := signed.OpenKeys(keys, quiet)
					require.NoError(t, err)
					scheme, err := signed.New(f.Format, set, signed.Rules{})
					require.NoError(t, err)
					r, err := relay.New(relay.Config{Authorizer: auth.Any{file, scheme}, Logger: quiet})
					require.NoError(t, err)
					ctx, end := context.WithCancel(t.Context())
					defer end()
					go r.Run(ctx)

					token := func(key string, life time.Duration) string {
						claims := &signed.Claims{Expires: time.Now().Add(life)}
						text, err := f.sign(keyOf(key), claims, []auth.Permission{{Word: auth.All}})
						require.NoError(t, err)
						return text
					}
					gone, stays := admit(t, r, token("b", life)), admit(t, r, token("a", time.Hour))
					time.Sleep(time.Minute)
					if what == "key" {
						require.NoError(t, gone.Context().Err())
						writeKeys(t, keys, "a")
					}
					time.Sleep(time.Second)
					synctest.Wait()
					require.ErrorIs(t, context.Cause(gone.Context()), relay.ErrWithdrawn)
					require.NoError(t, stays.Context().Err())
					gone.Leave()
					stays.Leave()
				})
			})
		}
	}
}

func admit(t *testing.T, r *relay.Relay, token string) *relay.Guest {
	t.Helper()
	g, err := r.Admit(t.Context(), relay.AuthRequest{
		Kind: transport.RTSP, Remote: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 554},
		Tokens:    []moqt.Token{{AliasType: moqt.AliasUseValue, Value: []byte(token)}},
		Action:    relay.ActionSubscribe,
		Namespace: moqt.Namespace{"live"}, Name: "video",
	})
	require.NoError(t, err)
	return g
}
