package transport

import (
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"
	"github.com/stretchr/testify/require"

	"sluice/internal/logs/logstest"
)

// rawClient is a client that sees the streams below WebTransport.
type rawClient struct {
	qc      *quic.Conn
	conn    *http3.RawClientConn
	connect *http3.RequestStream
	streams chan *quic.ReceiveStream // the session's, after their headers
}

// dialRaw opens a WebTransport session. More settings may be nil.
func (s *testServer) dialRaw(t *testing.T, more map[uint64]uint64) *rawClient {
	t.Helper()
	qc := s.dialQUIC(t, http3.NextProtoH3)
	settings := map[uint64]uint64{0x2c7cf000: 1} // SETTINGS_WT_ENABLED
	maps.Copy(settings, more)
	tr := &http3.Transport{EnableDatagrams: true, AdditionalSettings: settings}
	c := &rawClient{qc: qc, conn: tr.NewRawClientConn(qc), streams: make(chan *quic.ReceiveStream, 10)}
	go func() {
		for {
			str, err := qc.AcceptUniStream(t.Context())
			if err != nil {
				return
			}
			go c.take(str)
		}
	}()
	var err error
	c.connect, err = c.conn.OpenRequestStream(testContext(t))
	require.NoError(t, err)
	u, err := url.Parse(s.url(WebTransport))
	require.NoError(t, err)
	require.NoError(t, c.connect.SendRequestHeader(&http.Request{
		Method: http.MethodConnect, Proto: "webtransport-h3", Host: u.Host, URL: u, Header: http.Header{},
	}))
	rsp, err := c.connect.ReadResponse()
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, rsp.StatusCode)
	return c
}

func (c *rawClient) take(str *quic.ReceiveStream) {
	if typ, err := quicvarint.Peek(str); err != nil || typ != uniStreamType {
		c.conn.HandleUnidirectionalStream(str)
		return
	}
	r := quicvarint.NewReader(str)
	for range 2 { // the type and the session
		if _, err := quicvarint.Read(r); err != nil {
			return
		}
	}
	c.streams <- str
}

// TestCloseComesBeforeResets closes a session with a code and a reason. Its streams are reset when the client knows.
func TestCloseComesBeforeResets(t *testing.T) {
	s := newServer(t)
	c := s.dialRaw(t, nil)
	server, err := s.Accept(testContext(t))
	require.NoError(t, err)
	out, err := server.OpenUniStream()
	require.NoError(t, err)
	write(t, out, "x")
	in := <-c.streams
	_, err = io.ReadFull(in, make([]byte, 1))
	require.NoError(t, err)

	go server.CloseWithError(7, "because")
	capsule := make([]byte, 2+1+4+len("because")) // type, length, code, reason
	_, err = io.ReadFull(c.connect, capsule)
	require.NoError(t, err)
	require.Equal(t, "\x68\x43\x0b\x00\x00\x00\x07because", string(capsule))
	require.NoError(t, in.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = in.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "a reset before the client has answered")

	require.NoError(t, in.SetReadDeadline(time.Time{}))
	require.NoError(t, c.connect.Close())
	_, err = in.Read(make([]byte, 1))
	var reset *quic.StreamError
	require.ErrorAs(t, err, &reset)
}

// TestAnnouncedLimits reads the settings that a server announces. Safari wants a limit of sessions, and initial limits
// of each session (https://github.com/quic-go/webtransport-go/issues/355).
func TestAnnouncedLimits(t *testing.T) {
	c := newServer(t).dialRaw(t, nil)
	<-c.conn.ReceivedSettings()
	announced := c.conn.Settings().Other
	require.Equal(t, uint64(1), announced[settingMaxSessions], "SETTINGS_WT_MAX_SESSIONS")
	require.Equal(t, uint64(1), announced[0x2c7cf000], "SETTINGS_WT_ENABLED")
	require.Equal(t, uint64(1<<62-1), announced[0x2b61], "SETTINGS_WT_INITIAL_MAX_DATA")
	require.Equal(t, uint64(1<<60), announced[0x2b64], "SETTINGS_WT_INITIAL_MAX_STREAMS_UNI")
	require.Equal(t, uint64(1<<60), announced[0x2b65], "SETTINGS_WT_INITIAL_MAX_STREAMS_BIDI")
}

// TestRefusalsAreLogged offers protocols that the server does not speak. A browser shows its user no reason.
func TestRefusalsAreLogged(t *testing.T) {
	var log logstest.Buffer
	s := newServer(t, func(c *ListenConfig) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	for range 2 {
		_, err := s.dial(t, WebTransport, func(c *ClientConfig) { c.Protocols = []string{"moq-lite-99", "moq-00"} })
		require.Error(t, err)
	}
	require.Regexp(t, `level=INFO msg="WebTransport session refused" remote=127.0.0.1:\d+ `+
		`reason="this server speaks .*" offered=".*moq-lite-99.*moq-00.*" origin=""\n$`, log.String())
}

// TestNothingIsReadAfterClose closes a session whose client does not answer, and goes on to send.
func TestNothingIsReadAfterClose(t *testing.T) {
	s := newServer(t)
	c := s.dialRaw(t, nil)
	server, err := s.Accept(testContext(t))
	require.NoError(t, err)
	out, err := c.qc.OpenUniStream()
	require.NoError(t, err)
	_, err = out.Write(append(quicvarint.Append(quicvarint.Append(nil, uniStreamType), 0), 'x'))
	require.NoError(t, err)
	in, err := server.AcceptUniStream(testContext(t))
	require.NoError(t, err)
	_, err = io.ReadFull(in, make([]byte, 1))
	require.NoError(t, err)

	go server.CloseWithError(7, "because")
	<-server.Context().Done()
	_, err = out.Write([]byte("y"))
	require.NoError(t, err)
	n, err := in.Read(make([]byte, 1))
	require.Zero(t, n)
	require.Equal(t, &SessionError{Code: 7, Reason: "because"}, err)

	require.NoError(t, c.qc.SendDatagram([]byte{0, 'z'}))
	_, err = server.ReceiveDatagram(testContext(t))
	require.Equal(t, &SessionError{Code: 7, Reason: "because"}, err)
}
