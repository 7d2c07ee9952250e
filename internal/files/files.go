// Package files reads files of settings and secrets, which are small, and may change while they are used.
package files

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// maxSecret is the size of the largest file with a secret.
const maxSecret = 64 << 10

// Read reads a file that may have so many bytes. It also returns how the file was when it was opened, for [Same].
func Read(name string, most int) ([]byte, os.FileInfo, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err == nil && len(text) > most {
		err = fmt.Errorf("%s: larger than %d bytes", name, most)
	}
	return text, info, err
}

// Secret reads a token that is in a file alone, on a line of its own.
func Secret(name string) (string, error) {
	text, _, err := Read(name, maxSecret)
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" {
		return "", fmt.Errorf("%s: is empty", name)
	}
	return secret, nil
}

// Same reports whether the file of a name is as it was before. nil is for no file.
func Same(before, now os.FileInfo) bool {
	if before == nil || now == nil {
		return before == nil && now == nil
	}
	return os.SameFile(before, now) && before.Size() == now.Size() && before.ModTime().Equal(now.ModTime())
}
