package main

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// capabilityBits are from linux/capability.h.
var capabilityBits = map[string]int{"NET_BIND_SERVICE": 10, "NET_ADMIN": 12, "PERFMON": 38, "BPF": 39}

// rootFiles returns the files of an image, as a tar archive.
func rootFiles(program string, capabilities []string, t time.Time) ([]byte, error) {
	text, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	permitted, err := fileCapabilities(capabilities)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(h tar.Header, content []byte) {
		h.ModTime, h.Size, h.Format = t, int64(len(content)), tar.FormatPAX
		err = errors.Join(err, w.WriteHeader(&h))
		if len(content) > 0 {
			_, writing := w.Write(content)
			err = errors.Join(err, writing)
		}
	}
	for _, dir := range []string{"etc/", "etc/ssl/", "etc/ssl/certs/"} {
		add(tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}, nil)
	}
	add(tar.Header{Name: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644}, authorities())
	add(tar.Header{
		Name: "sluice", Mode: 0o755, PAXRecords: map[string]string{"SCHILY.xattr.security.capability": permitted},
	}, text)
	return b.Bytes(), errors.Join(err, w.Close())
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
