package transport

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// page connects, and posts its observations.
const page = `<!doctype html><script>
const utf8 = b => new TextDecoder().decode(b), bytes = s => new TextEncoder().encode(s);
const readAll = async r => { let s = ""; for await (const b of r) s += utf8(b); return s; };
async function run() {
	const seen = {};
	const wt = new WebTransport("%s", {
		protocols: ["moqt-17", "moqt-18"],
		serverCertificateHashes: [{algorithm: "sha-256", value: Uint8Array.from(atob("%s"), c => c.charCodeAt(0))}],
	});
	await wt.ready;
	seen.protocol = wt.protocol;

	const bidi = await wt.createBidirectionalStream();
	const w = bidi.writable.getWriter();
	await w.write(bytes("bidi"));
	await w.close();
	seen.bidi = await readAll(bidi.readable);

	const datagrams = wt.datagrams.writable || wt.datagrams.createWritable();
	const d = datagrams.getWriter(), dr = wt.datagrams.readable.getReader();
	await d.write(bytes("datagram"));
	seen.datagram = utf8((await dr.read()).value);

	const streams = wt.incomingUnidirectionalStreams.getReader();
	seen.uni = await readAll((await streams.read()).value);
	const reset = (await streams.read()).value.getReader();
	await reset.read();
	await d.write(bytes("reset it"));
	try { await reset.read(); } catch (e) { seen.reset = e.streamErrorCode; }

	const up = (await wt.createUnidirectionalStream()).getWriter();
	await up.write(bytes("x"));
	await dr.read(); // it has arrived
	up.abort(new WebTransportError({message: "aborted", streamErrorCode: 77}));
	const end = await wt.closed;
	seen.closeCode = end.closeCode;
	seen.reason = end.reason;
	return seen;
}
run().catch(e => ({error: String(e)})).then(r => fetch("/result", {method: "POST", body: JSON.stringify(r)}));
</script>`

// serveBrowser is the other end of page.
func serveBrowser(c Conn) error {
	ctx := c.Context()
	s, err := c.AcceptStream(ctx)
	if err != nil {
		return err
	}
	if _, err := io.Copy(s, s); err != nil {
		return err
	}
	s.Close()
	b, err := c.ReceiveDatagram(ctx)
	if err != nil {
		return err
	}
	if err := c.SendDatagram(b); err != nil {
		return err
	}
	for _, code := range []uint64{0, 1234} {
		w, err := c.OpenUniStream()
		if err != nil {
			return err
		}
		fmt.Fprint(w, "uni")
		if code == 0 {
			w.Close()
			continue
		}
		if _, err := c.ReceiveDatagram(ctx); err != nil {
			return err
		}
		w.CancelWrite(code)
	}
	return nil
}

// TestBrowser needs Chromium, which negotiates and maps codes as users' browsers do.
func TestBrowser(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed")
	}
	s := newServer(t)
	result := make(chan map[string]any, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, page, s.url(WebTransport), base64.StdEncoding.EncodeToString(s.hash))
	})
	mux.HandleFunc("POST /result", func(_ http.ResponseWriter, r *http.Request) {
		seen := map[string]any{}
		json.NewDecoder(r.Body).Decode(&seen)
		result <- seen
	})
	web := httptest.NewServer(mux)
	defer web.Close()
	profile, err := os.MkdirTemp("", "transport-test")
	require.NoError(t, err)
	defer os.RemoveAll(profile)
	cmd := exec.Command(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+profile,
		strings.Replace(web.URL, "127.0.0.1", "localhost", 1)) // a page of localhost may use WebTransport
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	defer func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // its children as well
		cmd.Wait()
	}()

	c, err := s.Accept(testContext(t))
	require.NoError(t, err)
	require.Equal(t, testProtocol, c.Protocol())
	require.Equal(t, "/app?q=1", c.Path())
	require.EqualValues(t, tls.TLS_CHACHA20_POLY1305_SHA256, c.(*wtSession).qc.ConnectionState().TLS.CipherSuite)
	require.NoError(t, serveBrowser(c))
	r, err := c.AcceptUniStream(testContext(t))
	require.NoError(t, err)
	_, err = io.ReadFull(r, make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, c.SendDatagram([]byte("got it")))
	_, err = r.Read(make([]byte, 1))
	require.Equal(t, &StreamError{Code: 77, Remote: true}, err)
	require.NoError(t, c.CloseWithError(99, "enough"))

	require.Equal(t, map[string]any{
		"protocol": testProtocol, "bidi": "bidi", "datagram": "datagram", "uni": "uni", "reset": 1234.0,
		"closeCode": 99.0, "reason": "enough",
	}, <-result)
}
