package main

import (
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// check validates a layout, and writes the files of one image to w.
func check(folder, architecture string, w io.Writer) error {
	top, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return err
	}
	if err := validate.Index(top); err != nil {
		return err
	}
	img, err := find(top, architecture)
	if err != nil {
		return err
	}
	files := mutate.Extract(img)
	defer files.Close()
	_, err = io.Copy(w, files)
	return err
}

// find returns the image of an architecture: a layout has one index, with an image of each.
func find(top v1.ImageIndex, architecture string) (v1.Image, error) {
	m, err := top.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(m.Manifests) != 1 {
		return nil, fmt.Errorf("%d indexes: must be 1", len(m.Manifests))
	}
	index, err := top.ImageIndex(m.Manifests[0].Digest)
	if err != nil {
		return nil, err
	}
	m, err = index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, d := range m.Manifests {
		if d.Platform.OS == "linux" && d.Platform.Architecture == architecture {
			return index.Image(d.Digest)
		}
	}
	return nil, fmt.Errorf("no image for %s", architecture)
}
