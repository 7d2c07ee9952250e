package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/cpu"

	"sluice/lab/bench/load"
	"sluice/moqt"
	"sluice/transport"
)

// firstCipher returns the cipher that a load generator offers first. The order is one for a whole process, so the
// generator has one of its own.
func firstCipher(t *testing.T) uint16 {
	t.Helper()
	cert, _, err := transport.DevCertificate()
	require.NoError(t, err)
	offered := make(chan uint16, 1)
	l, err := quic.ListenAddr("127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{cert}, NextProtos: moqt.ALPNs(),
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			select {
			case offered <- hello.CipherSuites[0]:
			default: // it tries again
			}
			return nil, errors.New("enough")
		},
	}, nil)
	require.NoError(t, err)
	defer l.Close()
	task, err := json.Marshal(load.GeneratorConfig{URL: "moqt://" + l.Addr().String(), Sessions: 1})
	require.NoError(t, err)
	program, err := os.Executable()
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	generator := exec.CommandContext(ctx, program, "bench-load", string(task))
	generator.Args[0] = programName // which this test's binary then is
	require.NoError(t, generator.Start())
	defer func() {
		stop()
		_ = generator.Wait() // it was killed
	}()
	return <-offered
}

// Load generators stand for stock clients.
func TestFirstCipher(t *testing.T) {
	if !cpu.X86.HasAES && !cpu.ARM64.HasAES {
		t.Skip("this CPU has no instructions for AES")
	}
	require.Equal(t, tls.TLS_AES_128_GCM_SHA256, firstCipher(t))
}
