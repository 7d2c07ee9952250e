package hosts

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// maxFile is the size of the largest file that is fetched, bytes.
const maxFile = 256 << 20

// unpack writes the regular files of a tar archive below a directory, and nothing outside of it.
func unpack(from io.Reader, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for archive := tar.NewReader(from); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if h.Size > maxFile {
			return fmt.Errorf("%s: %d bytes: must be at most %d", h.Name, h.Size, maxFile)
		}
		if err := unpackFile(archive, root, filepath.FromSlash(h.Name)); err != nil {
			return err
		}
	}
}

func unpackFile(from io.Reader, root *os.Root, name string) error {
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := root.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}
