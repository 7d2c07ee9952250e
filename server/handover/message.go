package handover

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/netip"

	"sluice/server"
	"sluice/server/steer"
)

// version is the version of the messages. Processes with different versions do not replace each other.
const version = 3

const (
	maxMessage = 64 << 10 // far more than any message has
	maxFiles   = 8
	maxLinks   = 32 // so that a message has room for them
)

// request is the first message of the new process.
type request struct {
	Version int `json:"version"`
}

// offer answers it. The message carries the files of the group's maps, and the listener of the admin address if there
// is one.
type offer struct {
	Error   string         `json:"error,omitempty"` // the process cannot be replaced; nothing else is set
	Number  steer.Number   `json:"number"`
	Address netip.AddrPort `json:"address"`
	// Certificate is a certificate that the process has made itself, for clients that have pinned it.
	Certificate *certificate `json:"certificate,omitempty"`
	// Environment tells the new process how to reach the service manager.
	Environment map[string]string `json:"environment,omitempty"`
	// Links are the processes that the new one makes links with. A process of an older version knows of none.
	Links []server.LinkTarget `json:"links,omitempty"`
}

// certificate is a certificate with its key. Only processes of the same user get messages.
type certificate struct {
	Chain [][]byte `json:"chain"` // DER
	Key   []byte   `json:"key"`   // PKCS #8
}

func newCertificate(cert *tls.Certificate) (*certificate, error) {
	if cert == nil {
		return nil, nil
	}
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	return &certificate{cert.Certificate, key}, err
}

func (c *certificate) parse() (*tls.Certificate, error) {
	if c == nil {
		return nil, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(c.Key)
	return &tls.Certificate{Certificate: c.Chain, PrivateKey: key}, err
}

// ready is the second message of the new process.
type ready struct{}

// done answers it: the new process is the newest.
type done struct {
	Error string `json:"error,omitempty"`
}

// send sends a message with files.
func send(c Conn, m any, files ...int) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return c.Send(b, files...)
}

// receive receives a message. The caller closes the files.
func receive(c Conn, m any) (files []int, err error) {
	b, files, err := c.Receive()
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, m); err != nil {
		closeFiles(files)
		return nil, fmt.Errorf("not a message of a relay: %w", err)
	}
	return files, nil
}
