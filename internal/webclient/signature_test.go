package webclient

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
)

const testSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// TestSignature has the test vector of the implementations of Standard Webhooks.
func TestSignature(t *testing.T) {
	s, err := parseSecrets([]byte(testSecret))
	require.NoError(t, err)
	require.Equal(t, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
		s.signature("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`)))
}

// TestAttempts: attempts to send a message have one id, and each its own time; another message has another id.
func TestAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secrets, err := parseSecrets([]byte("\n " + testSecret + "\nwhsec_" + strings.Repeat("QUJD", 16) + "\n"))
		require.NoError(t, err)
		var all []http.Header
		for _, body := range []string{"one", "one", "two"} {
			h := make(http.Header)
			secrets.sign(h, time.Now(), []byte(body))
			id, at := h.Get("webhook-id"), h.Get("webhook-timestamp")
			require.Equal(t, secrets.signature(id, at, []byte(body)), h.Get("webhook-signature"))
			require.Len(t, strings.Fields(h.Get("webhook-signature")), 2, "by both secrets")
			all = append(all, h)
			time.Sleep(time.Second)
		}
		for _, name := range []string{"webhook-timestamp", "webhook-signature"} {
			require.NotEqual(t, all[0].Get(name), all[1].Get(name))
		}
		require.Equal(t, all[0].Get("webhook-id"), all[1].Get("webhook-id"))
		require.NotEqual(t, all[0].Get("webhook-id"), all[2].Get("webhook-id"))
		require.NotContains(t, all[0].Get("webhook-id"), ".", "it ends at the first dot of what is signed")
	})
}

func TestSignedRequests(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		secrets, err := parseSecrets([]byte(testSecret))
		require.NoError(t, err)
		want := secrets.signature(r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp"), body)
		if r.Header.Get("webhook-signature") != want {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	secrets, err := parseSecrets([]byte(testSecret))
	require.NoError(t, err)
	_, err = newClient(t, Config{URL: s.URL, Secrets: secrets}).Post(t.Context(), []byte("{}"))
	require.NoError(t, err)
	_, err = newClient(t, Config{URL: s.URL}).Post(t.Context(), []byte("{}"))
	require.ErrorContains(t, err, "401")
}

func TestSecrets(t *testing.T) {
	name := filepath.Join(t.TempDir(), "secrets")
	for _, text := range []string{
		"", "\n\n", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_short", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS",
		"whsec_" + strings.Repeat("QUJD", 22), strings.Repeat(testSecret+"\n", maxSecrets+1),
	} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		_, err := ReadSecrets(name)
		require.ErrorContains(t, err, name+": ", text)
		require.ErrorContains(t, err, "echo whsec_$(openssl rand -base64 32)", text)
		require.NotContains(t, err.Error(), "MfKQ")
	}
	require.NoError(t, os.WriteFile(name, []byte(strings.Repeat(testSecret+"\r\n", maxSecrets)), 0o600))
	s, err := ReadSecrets(name)
	require.NoError(t, err)
	require.Len(t, s, maxSecrets)
	_, err = ReadSecrets(name + "2")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func FuzzSecrets(f *testing.F) {
	f.Add([]byte(testSecret))
	f.Add([]byte("whsec_\n" + testSecret))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testlimit.Start(t, len(b), 1000)()
		s, err := parseSecrets(b)
		if err == nil && (len(s) == 0 || len(s) > maxSecrets) {
			t.Fatalf("%d secrets", len(s))
		}
		for _, secret := range s {
			if len(secret) < minSecret || len(secret) > maxSecret {
				t.Fatalf("a secret has %d bytes", len(secret))
			}
		}
	})
}
