package transport

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// writePair writes a new certificate and its key, and returns the certificate's SHA-256.
func writePair(t *testing.T, certFile, keyFile string) []byte {
	t.Helper()
	cert, hash, err := DevCertificate()
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	require.NoError(t, err)
	writePEM(t, certFile, "CERTIFICATE", cert.Certificate[0])
	writePEM(t, keyFile, "PRIVATE KEY", der)
	return hash[:]
}

func writePEM(t *testing.T, file, typ string, der []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(file+".new", pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: der}), 0o600))
	require.NoError(t, os.Rename(file+".new", file))
}

func pairIn(t *testing.T) (certFile, keyFile string) {
	dir := t.TempDir()
	return filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
}

func TestCertificateReload(t *testing.T) {
	certFile, keyFile := pairIn(t)
	first := writePair(t, certFile, keyFile)
	var log bytes.Buffer
	now := time.Now()
	f, err := certFiles(certFile, keyFile, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	f.now = func() time.Time { return now }
	current := func() []byte {
		now = now.Add(checkInterval)
		hash := sha256.Sum256(f.get().Certificate[0])
		return hash[:]
	}
	require.Equal(t, first, current())
	require.Empty(t, log.String())

	second := writePair(t, certFile, keyFile)
	now = now.Add(-checkInterval)
	require.Equal(t, first, current(), "checked too often")
	require.Equal(t, second, current())
	require.Contains(t, log.String(), "reloaded")

	log.Reset()
	otherCert, otherKey := pairIn(t)
	third := writePair(t, otherCert, otherKey)
	require.NoError(t, os.Rename(otherCert, certFile)) // its key is not there yet
	require.Equal(t, second, current())
	require.Contains(t, log.String(), "private key does not match")
	log.Reset()
	require.Equal(t, second, current())
	require.Empty(t, log.String(), "the same failure again")
	require.NoError(t, os.Rename(otherKey, keyFile))
	require.Equal(t, third, current())

	log.Reset()
	require.NoError(t, os.Remove(keyFile))
	require.Equal(t, third, current())
	require.Contains(t, log.String(), "no such file")
	require.Equal(t, third, current())
	require.NoError(t, os.WriteFile(keyFile, []byte("garbage"), 0o600))
	require.Equal(t, third, current())
	fourth := writePair(t, certFile, keyFile)
	require.Equal(t, fourth, current())
}

func TestCertificateFiles(t *testing.T) {
	certFile, keyFile := pairIn(t)
	files := func(c *ListenConfig) { c.Certificate, c.CertFile, c.KeyFile = nil, certFile, keyFile }
	cfg := ListenConfig{CertFile: certFile, KeyFile: keyFile, Protocols: []string{testProtocol}}
	_, err := Listen("127.0.0.1:0", cfg)
	require.ErrorIs(t, err, os.ErrNotExist)

	hash := writePair(t, certFile, keyFile)
	s := newServer(t, files)
	_, err = s.dial(t, RawQUIC) // trusts another
	require.ErrorContains(t, err, "SHA-256")
	s.hash = hash
	s.connect(t, RawQUIC)

	_, err = s.dial(t, WebTransport, func(c *ClientConfig) { c.CertificateSHA256, c.CAFile = nil, certFile })
	require.NoError(t, err)
	_, err = s.dial(t, WebTransport, func(c *ClientConfig) { c.CertificateSHA256, c.Insecure = nil, true })
	require.NoError(t, err)
	_, err = s.dial(t, RawQUIC, func(c *ClientConfig) { c.CertificateSHA256 = nil })
	require.ErrorContains(t, err, "not trusted")
	_, err = s.dial(t, RawQUIC, func(c *ClientConfig) { c.CertificateSHA256, c.CAFile = nil, keyFile })
	require.ErrorContains(t, err, "no PEM certificate")
}

// TestNotTrusted expects advice about whom to trust only where trust is the reason.
func TestNotTrusted(t *testing.T) {
	for advice, reason := range map[bool][]error{
		true: {x509.UnknownAuthorityError{}},
		false: {
			x509.HostnameError{Certificate: new(x509.Certificate)}, x509.CertificateInvalidError{Reason: x509.Expired},
		},
	} {
		for _, r := range reason {
			err := explain(&tls.CertificateVerificationError{Err: r}, nil)
			require.ErrorIs(t, err, r)
			require.ErrorContains(t, err, "the server's certificate is not trusted: ")
			require.Equal(t, advice, strings.Contains(err.Error(), "name its authority"), err)
		}
	}
}

func TestDevCertificate(t *testing.T) {
	cert, hash, err := DevCertificate("relay.example", "192.0.2.1")
	require.NoError(t, err)
	require.Equal(t, sha256.Sum256(cert.Certificate[0]), hash)
	x, err := x509.ParseCertificate(cert.Certificate[0])
	require.NoError(t, err)
	for _, host := range []string{"localhost", "127.0.0.1", "::1", "relay.example", "192.0.2.1"} {
		require.NoError(t, x.VerifyHostname(host))
	}
	require.Error(t, x.VerifyHostname("example.com"))
	require.Less(t, x.NotAfter.Sub(x.NotBefore), 14*24*time.Hour)
	require.Equal(t, x509.ECDSAWithSHA256, x.SignatureAlgorithm)

	require.NoError(t, verifyPinned(x, hash[:], time.Now()))
	require.ErrorContains(t, verifyPinned(x, make([]byte, 32), time.Now()), hex.EncodeToString(hash[:]))
	require.ErrorContains(t, verifyPinned(x, hash[:], x.NotAfter.Add(time.Second)), "expired")
	require.ErrorContains(t, verifyPinned(x, hash[:], x.NotBefore.Add(-time.Second)), "not valid yet")
}

func TestParseFingerprint(t *testing.T) {
	want := bytes.Repeat([]byte{0xab, 0xcd}, 16)
	for _, s := range []string{hex.EncodeToString(want), "AB" + hex.EncodeToString(want)[2:], "ab:cd" +
		hex.EncodeToString(want)[4:]} {
		got, err := ParseFingerprint(s)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, s := range []string{"", "ab", hex.EncodeToString(want) + "00", hex.EncodeToString(want)[1:] + "x"} {
		_, err := ParseFingerprint(s)
		require.ErrorContains(t, err, "64 hexadecimal digits")
	}
}

// Processes with the same certificate take each other's tokens. Only processes at the same place reset each other's
// connections.
func TestKeysComeFromTheCertificate(t *testing.T) {
	one, _, err := DevCertificate()
	require.NoError(t, err)
	other, _, err := DevCertificate()
	require.NoError(t, err)
	here, there := deriveKeys(&one, "a:443"), deriveKeys(&one, "b:443")
	require.Equal(t, here, deriveKeys(&one, "a:443"))
	require.Equal(t, here.token, there.token)
	require.NotEqual(t, here.reset, there.reset)
	require.NotEqual(t, here.token, deriveKeys(&other, "a:443").token)
	require.NotEqual(t, here.reset, deriveKeys(&other, "a:443").reset)
	require.NotEqual(t, here.reset[:], here.token[:])
	require.Zero(t, deriveKeys(&tls.Certificate{PrivateKey: struct{}{}}, "here"), "a key in hardware")
}

func requireLost(t *testing.T, c Conn, why string) {
	t.Helper()
	<-c.Context().Done()
	_, err := c.OpenStream()
	end, ok := errors.AsType[*SessionError](err)
	require.True(t, ok, "%v", err)
	require.ErrorContains(t, end.Cause, why)
}
