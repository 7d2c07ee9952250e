package handover

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"sluice/server"
	"sluice/server/steer"
)

// Takeover is a process that replaces a running relay.
type Takeover struct {
	conn  Conn
	offer offer
	files []int // the maps, until takeMaps
	admin *net.TCPListener
}

// Request asks the relay with the control socket at path to be replaced by this process.
func Request(path string) (*Takeover, error) {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
			return nil, fmt.Errorf("no relay that can be replaced has the control socket %s", path)
		}
		return nil, err
	}
	return Ask(unixConn{conn})
}

// Ask asks the relay at the other end of a conversation to be replaced by this process.
func Ask(conn Conn) (*Takeover, error) {
	t := &Takeover{conn: conn}
	if err := t.request(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *Takeover) request() error {
	if err := t.conn.SetDeadline(time.Now().Add(messageTimeout)); err != nil {
		return err
	}
	if err := send(t.conn, request{Version: version}); err != nil {
		return err
	}
	files, err := receive(t.conn, &t.offer)
	if err != nil {
		return err
	}
	t.files = files
	if t.offer.Error != "" {
		return errors.New(t.offer.Error)
	}
	if maps := len(steer.Maps{}); len(files) < maps || len(files) > maps+1 {
		return fmt.Errorf("the running relay sent %d files instead of %d or %d", len(files), maps, maps+1)
	}
	return t.takeAdmin()
}

// takeAdmin takes the listener of the admin address, if there is one.
func (t *Takeover) takeAdmin() error {
	last := len(steer.Maps{})
	if len(t.files) == last {
		return nil
	}
	f := os.NewFile(uintptr(t.files[last]), "admin")
	t.files = t.files[:last]
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return err
	}
	var ok bool
	if t.admin, ok = l.(*net.TCPListener); !ok {
		return errors.Join(fmt.Errorf("the admin address %s is not a TCP address", l.Addr()), l.Close())
	}
	return nil
}

// takeMaps returns the maps. The caller closes them.
func (t *Takeover) takeMaps() (maps steer.Maps) {
	copy(maps[:], t.files)
	t.files = nil
	return maps
}

// Port returns the port that this process shares with the running relay.
func (t *Takeover) Port(cfg PortConfig) *Port {
	p := NewPort(cfg)
	p.number, p.from = t.Number(), t
	return p
}

// Number returns the number of this process among those that share the port.
func (t *Takeover) Number() steer.Number { return t.offer.Number }

// Certificate returns the certificate that the running relay, or one before it, has made itself, or nil.
func (t *Takeover) Certificate() (*tls.Certificate, error) { return t.offer.Certificate.parse() }

// Links returns the processes to make links with, before Commit: see [server.Server.LinkTo].
func (t *Takeover) Links() []server.LinkTarget { return t.offer.Links }

// ListenTCP returns the listener of the running relay if it has this address, and otherwise opens one.
func (t *Takeover) ListenTCP(address string) (*net.TCPListener, error) {
	local, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	if t.admin != nil && sameAddress((*net.UDPAddr)(t.admin.Addr().(*net.TCPAddr)), (*net.UDPAddr)(local)) {
		l := t.admin
		t.admin = nil
		return l, nil
	}
	return net.ListenTCP("tcp", local)
}

// Commit says that this process is ready. When it returns nil, this process is the newest and the other one drains.
// This process then has the environment to reach the service manager.
func (t *Takeover) Commit() error {
	if err := t.conn.SetDeadline(time.Now().Add(messageTimeout)); err != nil {
		return err
	}
	if err := send(t.conn, ready{}); err != nil {
		return fmt.Errorf("the running relay has ended: %w", err)
	}
	d, err := t.receiveDone()
	if err != nil {
		return fmt.Errorf("no answer from the running relay: %w", err)
	}
	if d.Error != "" {
		return errors.New(d.Error)
	}
	// Before the other process closes the connection it tells the service manager which process serves now (MAINPID of
	// sd_notify(3)), which else would not listen to this one.
	_, _, _ = t.conn.Receive() // it ends: at once, or after the deadline if the other process is stuck
	_ = t.closeAdmin()         // this process has another address, and nobody would answer at the old one
	for _, name := range inherited {
		if v := t.offer.Environment[name]; v != "" && os.Getenv(name) == "" {
			if err := os.Setenv(name, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// receiveDone receives the last message. If this process was not awake in time, the message may have come: then the
// other process drains already. Otherwise that process must not be able to send it any more.
func (t *Takeover) receiveDone() (d done, err error) {
	_, err = receive(t.conn, &d)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return d, err
	}
	err = errors.Join(t.conn.CloseRead(), t.conn.SetDeadline(time.Now().Add(messageTimeout)))
	if err == nil {
		_, err = receive(t.conn, &d)
	}
	return d, err
}

// Close ends the conversation. Without Commit, nothing has happened.
func (t *Takeover) Close() error {
	closeFiles(t.files)
	t.files = nil
	return errors.Join(t.conn.Close(), t.closeAdmin())
}

func (t *Takeover) closeAdmin() error {
	l := t.admin
	if t.admin = nil; l == nil {
		return nil
	}
	return l.Close()
}
