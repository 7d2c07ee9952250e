package handover

import (
	"errors"
	"net"
	"syscall"
	"time"
)

// Conn is a conversation with another process: messages that carry open files.
type Conn interface {
	// Send sends a message with files. It fails if the other process does not receive any more.
	Send(message []byte, files ...int) error
	// Receive returns the next message, or [io.EOF] at the end. The caller closes the files.
	Receive() (message []byte, files []int, err error)
	// CloseRead has Send of the other process fail from now on. Messages that it has sent before are received.
	CloseRead() error
	SetDeadline(time.Time) error
	// Peer returns the id of the other process. It fails if that process must not take over.
	Peer() (pid int, err error)
	Close() error
}

// unixConn is a Unix socket that keeps messages apart.
type unixConn struct{ *net.UnixConn }

// Send implements Conn.
func (c unixConn) Send(message []byte, files ...int) error {
	var rights []byte
	if len(files) > 0 {
		rights = syscall.UnixRights(files...)
	}
	_, _, err := c.WriteMsgUnix(message, rights, nil)
	return err
}

// Receive implements Conn.
func (c unixConn) Receive() (message []byte, files []int, err error) {
	b, rights := make([]byte, maxMessage), make([]byte, syscall.CmsgSpace(4*maxFiles))
	n, rn, flags, _, err := c.ReadMsgUnix(b, rights)
	if err != nil {
		return nil, nil, err
	}
	if files, err = parseRights(rights[:rn]); err != nil {
		return nil, nil, err
	}
	if flags&(syscall.MSG_TRUNC|syscall.MSG_CTRUNC) != 0 {
		closeFiles(files)
		return nil, nil, errors.New("the message is too long")
	}
	return b[:n], files, nil
}

// Peer implements Conn.
func (c unixConn) Peer() (pid int, err error) { return peerOf(c.UnixConn) }

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
