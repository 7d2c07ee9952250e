package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// description is dist/image.json, or another file of its kind.
type description struct {
	Program      string            // name of the binary's file; default: sluice
	Capabilities []string          // of the binary's file, permitted
	Files        map[string]string // more files, by their paths in the image: here, or beside the description
	State        string            // a folder that user 65532 may write
	Config       v1.Config         // how the image runs
}

func makeLayout(descriptionFile, name, folder string, binaries []string) error {
	var d description
	text, err := os.ReadFile(descriptionFile)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return fmt.Errorf("%s: %w", descriptionFile, err)
	}
	for name, file := range d.Files {
		if !filepath.IsAbs(file) {
			d.Files[name] = filepath.Join(filepath.Dir(descriptionFile), file)
		}
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range binaries {
		architecture, file, _ := strings.Cut(b, "=")
		img, err := d.image(architecture, file, time.Unix(seconds, 0).UTC())
		if err != nil {
			return fmt.Errorf("%s: %w", b, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
		})
	}
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	// The first name is for Podman and skopeo, the second one for containerd and so for Docker.
	return path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": name, "io.containerd.image.name": "docker.io/library/" + name,
	}))
}

// image returns the image with a binary.
func (d *description) image(architecture, binary string, t time.Time) (v1.Image, error) {
	files, err := d.rootFiles(binary, t)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files)), nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression))
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{
		Architecture: architecture, OS: "linux", Config: d.Config, Created: v1.Time{Time: t},
		RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(img, mutate.Addendum{
		Layer: layer, History: v1.History{Created: v1.Time{Time: t}, CreatedBy: "scripts/image"},
	})
}

// rootFiles returns the files of an image, as a tar archive.
func (d *description) rootFiles(program string, t time.Time) ([]byte, error) {
	var b bytes.Buffer
	a := archive{w: tar.NewWriter(&b), t: t}
	a.add(tar.Header{Name: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644}, authorities())
	h := tar.Header{Name: cmp.Or(d.Program, "sluice"), Mode: 0o755}
	if len(d.Capabilities) > 0 {
		permitted, err := fileCapabilities(d.Capabilities)
		if err != nil {
			return nil, err
		}
		h.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": permitted}
	}
	a.addFile(h, program)
	for _, name := range slices.Sorted(maps.Keys(d.Files)) {
		a.addFile(tar.Header{Name: name, Mode: 0o755}, d.Files[name])
	}
	if d.State != "" {
		a.add(tar.Header{Typeflag: tar.TypeDir, Name: d.State, Mode: 0o700, Uid: 65532, Gid: 65532}, nil)
	}
	return b.Bytes(), errors.Join(a.err, a.w.Close())
}
