package transport

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
)

func TestParseURL(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want URL
	}{
		{"moqt://example.com", URL{RawQUIC, "example.com", "example.com", 443, "", Fragment{}}},
		{"MOQT://example.com", URL{RawQUIC, "example.com", "example.com", 443, "", Fragment{}}},
		{"moqt://example.com:4433/", URL{RawQUIC, "example.com:4433", "example.com", 4433, "/", Fragment{}}},
		{"moqt://example.com/a/b?c=d&e", URL{RawQUIC, "example.com", "example.com", 443, "/a/b?c=d&e", Fragment{}}},
		{"moqt://example.com?", URL{RawQUIC, "example.com", "example.com", 443, "?", Fragment{}}},
		{"moqt://h/a%2Fb%20c", URL{RawQUIC, "h", "h", 443, "/a%2Fb%20c", Fragment{}}},
		{"https://example.com:4433/path", URL{WebTransport, "example.com:4433", "example.com", 4433, "/path",
			Fragment{}}},
		{"https://example.com", URL{WebTransport, "example.com", "example.com", 443, "", Fragment{}}},
		{"moqt://[2001:db8::1]:1/", URL{RawQUIC, "[2001:db8::1]:1", "2001:db8::1", 1, "/", Fragment{}}},
		{"moqt://[fe80::1%25eth0]/", URL{RawQUIC, "[fe80::1%25eth0]", "fe80::1%eth0", 443, "/", Fragment{}}},
		{"moqt://192.0.2.1:65535", URL{RawQUIC, "192.0.2.1:65535", "192.0.2.1", 65535, "", Fragment{}}},
		{"moqt://h:/p", URL{RawQUIC, "h:", "h", 443, "/p", Fragment{}}},
		{"moqt://h/app#track:a-b--c", URL{RawQUIC, "h", "h", 443, "/app", Fragment{"track", "a-b--c"}}},
		{"moqt://h#x-1:", URL{RawQUIC, "h", "h", 443, "", Fragment{"x-1", ""}}},
		{"moqt://h#t:a:b%23c", URL{RawQUIC, "h", "h", 443, "", Fragment{"t", "a:b#c"}}},
	} {
		u, err := ParseURL(tt.in)
		require.NoError(t, err)
		require.Equal(t, &tt.want, u, tt.in)
	}
}

func TestParseURLErrors(t *testing.T) {
	for in, want := range map[string]string{
		"":                      "must be moqt://",
		"example.com":           "must be moqt://",
		"localhost:4443":        "must be moqt://",
		"http://example.com/":   "must be moqt://",
		"moqt:example.com":      "host is missing",
		"moqt:///path":          "host is missing",
		"moqt://:4433/":         "host is missing",
		"moqt://h:0/":           "port 0",
		"moqt://h:65536/":       "port 65536",
		"moqt://h:-1/":          "invalid port",
		"moqt://h:http/":        "invalid port",
		"moqt://user@h/":        "user names",
		"moqt://user:secret@h/": "user names",
		"moqt://h/a b":          "percent-encoded",
		"moqt://h/é":            "percent-encoded",
		"moqt://h/\x00":         "percent-encoded",
		"moqt://h/%zz":          "invalid URL escape",
		"moqt://h%e4/":          "ASCII",
		"moqt://[::1/":          "missing ']'",
		"moqt://h#":             "type:value",
		"moqt://h#fragment":     "type:value",
		"moqt://h#:value":       "type:value",
		"moqt://h#Type:value":   "type:value",
		"moqt://h#a_b:value":    "type:value",
		"https://h/#top":        "type:value",
		"moqt://h/" + strings.Repeat("a", maxURLLength): "longer than",
	} {
		_, err := ParseURL(in)
		require.ErrorContains(t, err, want, in)
		require.ErrorContains(t, err, "MoQ URL", in)
	}
}

func TestWithoutQuery(t *testing.T) {
	for in, want := range map[string]string{
		"":                           "",
		"/app":                       "/app",
		"/app?token=secret":          "/app",
		"?token=secret":              "",
		"/app#a:secret":              "/app",
		"https://h:1/a?b?secret#c:d": "https://h:1/a",
		"moqt://h#c:secret?d":        "moqt://h",
	} {
		require.Equal(t, want, WithoutQuery(in), in)
	}
	_, err := ParseURL("ftp://h/a?token=secret")
	require.ErrorContains(t, err, `"ftp://h/a"`)
}

func FuzzParseURL(f *testing.F) {
	f.Add("moqt://example.com:4433/a/b?c=d#type:value%20")
	f.Add("https://[::1%25lo]:1?x#a:")
	f.Add("moqt://h:/%2f?#-:#")
	f.Fuzz(func(t *testing.T, s string) {
		defer testlimit.Start(t, len(s), 1000)()
		u, err := ParseURL(s)
		if err != nil {
			return
		}
		require.NotEmpty(t, u.Host)
		require.NotZero(t, u.Port)
		again, err := ParseURL(u.String())
		require.NoError(t, err, "%q became %q", s, u.String())
		require.Equal(t, u, again)
	})
}
