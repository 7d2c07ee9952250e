package handover

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

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
func send(c *net.UnixConn, m any, files ...int) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	var rights []byte
	if len(files) > 0 {
		rights = syscall.UnixRights(files...)
	}
	_, _, err = c.WriteMsgUnix(b, rights, nil)
	return err
}

// receive receives a message. The caller closes the files.
func receive(c *net.UnixConn, m any) (files []int, err error) {
	b, rights := make([]byte, maxMessage), make([]byte, syscall.CmsgSpace(4*maxFiles))
	n, rn, flags, _, err := c.ReadMsgUnix(b, rights)
	if err != nil {
		return nil, err
	}
	if files, err = parseRights(rights[:rn]); err != nil {
		return nil, err
	}
	if flags&(syscall.MSG_TRUNC|syscall.MSG_CTRUNC) != 0 {
		err = errors.New("the message is too long")
	} else if err = json.Unmarshal(b[:n], m); err != nil {
		err = fmt.Errorf("not a message of a relay: %w", err)
	}
	if err != nil {
		closeFiles(files)
		return nil, err
	}
	return files, nil
}

func parseRights(b []byte) (files []int, err error) {
	messages, err := syscall.ParseSocketControlMessage(b)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		if fds, err := syscall.ParseUnixRights(&m); err == nil {
			files = append(files, fds...)
		}
	}
	return files, nil
}

func closeFiles(files []int) {
	for _, fd := range files {
		_ = syscall.Close(fd)
	}
}
