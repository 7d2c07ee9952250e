package main

import (
	"archive/tar"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// capabilityBits are from linux/capability.h.
var capabilityBits = map[string]int{"NET_BIND_SERVICE": 10, "NET_ADMIN": 12, "PERFMON": 38, "BPF": 39}

// archive writes files, with the folders above them.
type archive struct {
	w    *tar.Writer
	t    time.Time
	dirs []string
	err  error
}

func (a *archive) add(h tar.Header, content []byte) {
	for i, c := range h.Name {
		if dir := h.Name[:i+1]; c == '/' && len(dir) < len(h.Name) && !slices.Contains(a.dirs, dir) {
			a.dirs = append(a.dirs, dir)
			a.add(tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}, nil)
		}
	}
	h.ModTime, h.Size, h.Format = a.t, int64(len(content)), tar.FormatPAX
	a.err = errors.Join(a.err, a.w.WriteHeader(&h))
	if len(content) > 0 {
		_, err := a.w.Write(content)
		a.err = errors.Join(a.err, err)
	}
}

func (a *archive) addFile(h tar.Header, file string) {
	content, err := os.ReadFile(file)
	a.err = errors.Join(a.err, err)
	a.add(h, content)
}

// fileCapabilities returns the extended attribute of a file with permitted capabilities: struct
// vfs_cap_data, version 2.
func fileCapabilities(names []string) (string, error) {
	var set uint64
	for _, name := range names {
		bit, ok := capabilityBits[name]
		if !ok {
			return "", fmt.Errorf("capability %q: must be one of NET_BIND_SERVICE, NET_ADMIN, PERFMON, BPF", name)
		}
		set |= 1 << bit
	}
	data := binary.LittleEndian.AppendUint32(nil, 0x02000000)      // without the effective bit
	data = binary.LittleEndian.AppendUint32(data, uint32(set))     // permitted
	data = binary.LittleEndian.AppendUint32(data, 0)               // inheritable
	data = binary.LittleEndian.AppendUint32(data, uint32(set>>32)) // the upper halves
	return string(binary.LittleEndian.AppendUint32(data, 0)), nil
}

// authorities returns the certificates of the authorities that Mozilla trusts without a condition.
func authorities() (text []byte) {
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})...)
		}
	}
	return text
}
