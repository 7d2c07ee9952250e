package api

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSameUser sends requests as the user of the relay and, if that is root, as another one.
func TestSameUser(t *testing.T) {
	s := httptest.NewServer(SameUser(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	defer s.Close()
	r, err := http.Post(s.URL, "", nil)
	require.NoError(t, err)
	require.NoError(t, r.Body.Close())
	require.Equal(t, http.StatusOK, r.StatusCode)
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, c.Close())
	_, err = userOf(c.LocalAddr().String(), s.Listener.Addr().String())
	require.ErrorIs(t, err, errNoSocket, "nobody has a socket that was closed")
	_, err = userOf("192.0.2.1:1", "192.0.2.2:1")
	require.ErrorIs(t, err, errNoSocket)
	_, err = userOf("192.0.2.1:1", "<nil>")
	require.Error(t, err)
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	u, err := url.Parse(s.URL)
	require.NoError(t, err)
	answers := map[string]string{"POST": "user 65534 has sent the request", "DELETE": "403", "GET": "200 OK"}
	for method, want := range answers {
		script := fmt.Sprintf(`exec 3<>/dev/tcp/%s/%s; printf '%s / HTTP/1.0\r\n\r\n' >&3; cat <&3`,
			u.Hostname(), u.Port(), method)
		cmd := exec.Command("bash", "-c", script)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), want)
	}
}
