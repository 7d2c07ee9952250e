package hosts

import (
	"archive/tar"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	hosts, err := Parse("sub=c,pub=me@a,relay=b.example")
	require.NoError(t, err)
	require.Equal(t, Hosts{"pub": "me@a", "relay": "b.example", "sub": "c"}, hosts)
	for text, want := range map[string]string{
		"":                             `--hosts: "": must be pub=HOST,relay=HOST,sub=HOST`,
		"pub=a,relay=b":                `--hosts: "pub=a,relay=b": must be`,
		"pub=a,relay=b,sub=c,sub=d":    "must be pub=HOST,relay=HOST,sub=HOST",
		"pub=a,relay=b,viewer=c":       "must be pub=HOST,relay=HOST,sub=HOST",
		"pub=a,relay=,sub=c":           `--hosts: "relay=": must be a host, as ssh knows it`,
		"pub=a,relay=-oProxy=x,sub=c":  "must be a host, as ssh knows it",
		"pub=a,relay=b reboot,sub=c":   "must be a host, as ssh knows it",
		"pub=a,relay=b,sub=c,relay2=d": "must be pub=HOST,relay=HOST,sub=HOST",
	} {
		_, err := Parse(text)
		require.ErrorContains(t, err, want, text)
	}
}

func TestParseAddresses(t *testing.T) {
	up, down, err := ParseAddresses("192.0.2.1")
	require.NoError(t, err)
	require.Equal(t, [2]string{"192.0.2.1", "192.0.2.1"}, [2]string{up, down})
	up, down, err = ParseAddresses("192.0.2.1,2001:db8::1")
	require.NoError(t, err)
	require.Equal(t, [2]string{"192.0.2.1", "2001:db8::1"}, [2]string{up, down})
	for _, text := range []string{"", "relay", "192.0.2.1,", "192.0.2.1,192.0.2.2,192.0.2.3", "fe80::1%eth0"} {
		_, _, err := ParseAddresses(text)
		require.ErrorContains(t, err, "must be an IP address", text)
	}
}

// A shell reads the words back.
func TestQuote(t *testing.T) {
	words := []string{"a", "", "it's", `{"x": "$HOME"}`, "a;b|c&d", "`id`", "two\nlines"}
	out, err := exec.Command("sh", "-c", `printf '%s\0' `+quote(words)).Output()
	require.NoError(t, err)
	var read []string
	for part := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		read = append(read, string(part))
	}
	require.Equal(t, words, read)
}

// Files that another machine sends are written below the directory, or not at all.
func TestUnpack(t *testing.T) {
	archive := func(headers ...tar.Header) *bytes.Buffer {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range headers {
			h.Mode = 0o600
			require.NoError(t, w.WriteHeader(&h))
			if h.Typeflag == tar.TypeReg && h.Size < 10 {
				_, err := w.Write(make([]byte, h.Size))
				require.NoError(t, err)
			}
		}
		return &b
	}
	file := func(name string, size int64) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size}
	}
	dir := filepath.Join(t.TempDir(), "profiles")
	link := tar.Header{Typeflag: tar.TypeSymlink, Name: "link", Linkname: "/etc"}
	require.NoError(t, unpack(archive(tar.Header{Typeflag: tar.TypeDir, Name: "./10-idle/"}, link,
		file("./10-idle/sluice-1-cpu.pprof", 5), file("a", 0)), dir))
	found, err := os.ReadFile(filepath.Join(dir, "10-idle", "sluice-1-cpu.pprof"))
	require.NoError(t, err)
	require.Len(t, found, 5)
	require.FileExists(t, filepath.Join(dir, "a"))
	_, err = os.Lstat(filepath.Join(dir, "link"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Error(t, unpack(archive(file("../outside", 1)), dir))
	require.NoFileExists(t, filepath.Join(filepath.Dir(dir), "outside"))
	require.NoError(t, os.Symlink("/tmp", filepath.Join(dir, "leads-out")))
	require.Error(t, unpack(archive(file("leads-out/x", 1)), dir))
	require.ErrorContains(t, unpack(archive(file("large", maxFile+1)), dir), "must be at most 268435456")
	require.Error(t, unpack(bytes.NewReader(make([]byte, 100)), dir))
	require.Error(t, unpack(archive(), filepath.Join(dir, "a")), "it is a file")
}

func FuzzUnpack(f *testing.F) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	require.NoError(f, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "../a", Mode: 0o600}))
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		_ = unpack(bytes.NewReader(data), filepath.Join(dir, "in")) // whatever it says
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 1, "nothing is outside")
	})
}
