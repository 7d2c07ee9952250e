package transport

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/certtest"
)

func mutualOf(f certtest.Files) *MutualTLS {
	return &MutualTLS{CAFile: f.CA, CertFile: f.Cert, KeyFile: f.Key}
}

// TestMutualTLS connects clients with and without mutual TLS to one port.
func TestMutualTLS(t *testing.T) {
	nodes := certtest.New(t)
	s := newServer(t, func(c *ListenConfig) { c.Mutual = mutualOf(nodes.Issue(t)) })
	with := func(m *MutualTLS) func(*ClientConfig) {
		return func(c *ClientConfig) { c.CertificateSHA256, c.Mutual = nil, m }
	}
	own := nodes.Issue(t)
	for _, k := range []Kind{RawQUIC, WebTransport} {
		_, server := s.connect(t, k, with(mutualOf(own)))
		require.True(t, server.PeerIsVerified(), k)
		_, server = s.connect(t, k)
		require.False(t, server.PeerIsVerified(), k)
		_, server = s.connect(t, k, func(c *ClientConfig) { c.CertFile, c.KeyFile = own.Cert, own.Key })
		require.False(t, server.PeerIsVerified(), "the listener asks nobody else for a certificate")
	}

	strangers := certtest.New(t).Issue(t)
	_, err := s.dial(t, RawQUIC, with(mutualOf(strangers)))
	require.ErrorContains(t, err, "certificate is not trusted")
	half := mutualOf(strangers)
	half.CAFile = own.CA // trusts the listener, which does not trust it
	c, err := s.dial(t, RawQUIC, with(half))
	if err == nil { // TLS 1.3 tells a client later
		<-c.Context().Done()
		_, err = c.OpenStream()
	}
	require.ErrorContains(t, err, "tls")

	other := strings.Replace(s.url(RawQUIC), "127.0.0.1", "localhost", 1)
	_, err = Dial(testContext(t), other, ClientConfig{Protocols: []string{testProtocol}, Mutual: mutualOf(own)})
	require.ErrorContains(t, err, "localhost", "the certificate is for another host")
	_, err = newServer(t).dial(t, RawQUIC, with(mutualOf(own)))
	require.ErrorContains(t, err, "certificate is not trusted", "a listener without mutual TLS")
}

// TestMutualTLSWithoutACertificate asks for the listener's second identity and shows none.
func TestMutualTLSWithoutACertificate(t *testing.T) {
	files := certtest.New(t).Issue(t)
	conf := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{testProtocol}}
	require.NoError(t, mutualOf(files).addTo(conf, nil))
	mutual, err := conf.GetConfigForClient(&tls.ClientHelloInfo{ServerName: mutualName})
	require.NoError(t, err)
	require.Equal(t, tls.RequireAndVerifyClientCert, mutual.ClientAuth)
	mutual, err = conf.GetConfigForClient(&tls.ClientHelloInfo{ServerName: "relay.example"})
	require.NoError(t, err)
	require.Nil(t, mutual)
}

// TestAuthorityIsReadAgain replaces the file with the authority of a listener, also by one that is none.
func TestAuthorityIsReadAgain(t *testing.T) {
	files, other := certtest.New(t).Issue(t), certtest.New(t).Issue(t)
	pool := func(file string) *x509.CertPool {
		p, err := ReadAuthorities(file)
		require.NoError(t, err)
		return p
	}
	first, second := pool(files.CA), pool(other.CA)
	now := time.Now()
	a, err := authorityFile(files.CA, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	a.now = func() time.Time { return now }
	require.True(t, a.get().Equal(first))
	replace := func(text []byte) {
		require.NoError(t, os.Remove(files.CA))
		require.NoError(t, os.WriteFile(files.CA, text, 0o600))
		now = now.Add(checkInterval)
	}
	replace(nil)
	require.True(t, a.get().Equal(first), "the last one that could be read")
	require.NoError(t, os.Remove(files.CA))
	now = now.Add(checkInterval)
	require.True(t, a.get().Equal(first))
	require.NoError(t, os.WriteFile(files.CA, nil, 0o600))
	text, err := os.ReadFile(other.CA)
	require.NoError(t, err)
	replace(text)
	require.True(t, a.get().Equal(second))

	conf := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{testProtocol}}
	require.NoError(t, mutualOf(other).addTo(conf, slog.New(slog.DiscardHandler)))
	require.NoError(t, os.Rename(files.CA, other.CA)) // another file with the same authority
	mutual, err := conf.GetConfigForClient(&tls.ClientHelloInfo{ServerName: mutualName})
	require.NoError(t, err)
	require.True(t, mutual.ClientCAs.Equal(second))
}

func TestMutualTLSFiles(t *testing.T) {
	good := mutualOf(certtest.New(t).Issue(t))
	empty := t.TempDir() + "/empty"
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for want, m := range map[string]MutualTLS{
		"needs an authority": {CertFile: good.CertFile, KeyFile: good.KeyFile},
		"no PEM certificate": {CAFile: empty, CertFile: good.CertFile, KeyFile: good.KeyFile},
		"no such file":       {CAFile: good.CAFile, CertFile: good.CertFile + "x", KeyFile: good.KeyFile},
	} {
		cert, _, err := DevCertificate()
		require.NoError(t, err)
		_, err = Listen("127.0.0.1:0", ListenConfig{
			Certificate: &cert, Protocols: []string{testProtocol}, Mutual: &m,
		})
		require.ErrorContains(t, err, want)
		_, err = Dial(testContext(t), "moqt://127.0.0.1:9",
			ClientConfig{Protocols: []string{testProtocol}, Mutual: &m})
		require.ErrorContains(t, err, want)
	}
	for _, c := range []ClientConfig{
		{Mutual: good, Insecure: true}, {Mutual: good, CertFile: good.CertFile, KeyFile: good.KeyFile},
	} {
		c.Protocols = []string{testProtocol}
		_, err := Dial(testContext(t), "moqt://127.0.0.1:9", c)
		require.ErrorContains(t, err, "give ")
	}
}
