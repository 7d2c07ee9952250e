package transport

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"
	"github.com/stretchr/testify/require"

	"sluice/internal/logs/logstest"
	"sluice/internal/testlimit"
)

// FuzzWebTransport plays a client with a session that sends any bytes below WebTransport: in the CONNECT stream, where
// capsules are, in streams of its own and in a datagram. The session ends when the CONNECT stream does, and the next
// client is served.
func FuzzWebTransport(f *testing.F) {
	var capsules bytes.Buffer
	for typ := http3.CapsuleType(0x190b4d3d); typ <= 0x190b4d44; typ++ { // WT_MAX_DATA to WT_STREAMS_BLOCKED
		if typ != 0x190b4d3e && typ != 0x190b4d42 { // they are for HTTP/2
			require.NoError(f, http3.WriteCapsule(quicvarint.NewWriter(&capsules), typ, quicvarint.Append(nil, 2000)))
		}
	}
	closes := quicvarint.Append(nil, 0x2843)
	closes = append(closes, "\x0b\x00\x00\x00\x07because"...)
	bidi, uni := quicvarint.Append(nil, 0x41), quicvarint.Append(nil, uniStreamType)
	get := []byte("\x01\x08\x00\x00\xd1\xd7\xc1\x50\x01x") // HEADERS: GET https://x/
	for _, limited := range []bool{false, true} {
		f.Add(limited, capsules.Bytes(), append(bidi, "\x00x"...), append(uni, "\x00x"...), []byte("\x00x"))
		f.Add(limited, append(capsules.Bytes(), closes...), get, []byte("\x02\x3f\xe1\x1f"), []byte("\x04x"))
		f.Add(limited, closes, append(bidi, "\x04x"...), []byte("\x00\x04\x00"), []byte{})
	}
	s := newServer(f, func(c *ListenConfig) { c.Logger = logstest.NoErrors() })
	f.Fuzz(func(t *testing.T, limited bool, capsules, stream, uni, datagram []byte) {
		defer testlimit.Start(t, len(capsules)+len(stream)+len(uni)+len(datagram), 1000)()
		var limits map[uint64]uint64
		if limited {
			limits = map[uint64]uint64{0x2b61: 1000, 0x2b64: 1, 0x2b65: 1} // bytes, and streams of each kind
		}
		client := s.dialRaw(t, limits)
		server, err := s.Accept(testContext(t))
		require.NoError(t, err)
		go useSession(server)
		_ = client.qc.SendDatagram(datagram)
		if str, err := client.qc.OpenStream(); err == nil {
			_, _ = str.Write(stream)
			_ = str.Close()
		}
		if str, err := client.qc.OpenUniStream(); err == nil {
			_, _ = str.Write(uni)
			_ = str.Close()
		}
		_, _ = client.connect.Write(capsules) // the session may have ended
		_ = client.connect.Close()
		select {
		case <-server.Context().Done():
		case <-testContext(t).Done():
			require.Fail(t, "the session goes on")
		}
	})
}

// useSession reads what a client sends, returns its streams, and sends 2000 bytes.
func useSession(c Conn) {
	ctx := c.Context()
	go func() {
		if str, err := c.OpenUniStreamSync(ctx); err == nil {
			_, _ = str.Write(make([]byte, 2000))
		}
	}()
	go func() {
		for {
			if _, err := c.ReceiveDatagram(ctx); err != nil {
				return
			}
		}
	}()
	go func() {
		for {
			str, err := c.AcceptStream(ctx)
			if err != nil {
				return
			}
			go io.Copy(str, str)
		}
	}()
	for {
		str, err := c.AcceptUniStream(ctx)
		if err != nil {
			return
		}
		go io.Copy(io.Discard, str)
	}
}

// FuzzAvailableProtocols checks any offers of protocols. A name that the server speaks is in quotes, and what is
// accepted is accepted when it is encoded anew.
func FuzzAvailableProtocols(f *testing.F) {
	offer, err := httpsfv.Marshal(httpsfv.List{httpsfv.NewItem("moqt-17"), httpsfv.NewItem(testProtocol)})
	require.NoError(f, err)
	for _, header := range []string{
		offer, `"moqt-18"`, `"moqt-17", "moqt-18";a=1`, `("moqt-18" 1.5);b=?1, :aGk=:`, `moqt-18, @1`, `"moqt-18`,
	} {
		f.Add(header, offer)
	}
	s := wtServer{l: &Listener{cfg: ListenConfig{Protocols: []string{testProtocol}}}}
	f.Fuzz(func(t *testing.T, first, second string) {
		defer testlimit.Start(t, len(first)+len(second), 1000)()
		header := []string{first, second}
		if !s.speaksOneOf(header) {
			return
		}
		require.Contains(t, strings.Join(header, ","), `"`+testProtocol+`"`)
		list, err := httpsfv.UnmarshalList(header)
		require.NoError(t, err)
		again, err := httpsfv.Marshal(list)
		require.NoError(t, err)
		require.True(t, s.speaksOneOf([]string{again}), again)
	})
}
